// A convolution of stride 1 by Hopper's wgmma: out[position][column] = sum over taps and channels of
// image(position + tap, channel) * B(column, tap, channel), where a block's positions and those that its
// taps reach around them, the halo, are brought to shared memory once for all taps.
//
// Mapping: block = 128 kSlices positions x kN columns, warpgroups and barriers as wgmma_product.cuh has
// them. Positions follow each other through rows and images with the zeros between them, so that a tap
// is the same rows of shared memory, further on by a number that depends on the tap alone. Positions
// with no result (between images) are computed and not stored.
// Traffic: the image is read once a column of tiles, with its halo; B once a row of tiles, 128 bytes at a
// time, mostly from L2, which a product of gathered operands (wgmma_product.cuh) reads nine times as
// often for a 3x3 kernel.
#pragma once

#include "kernels/wgmma_product.cuh"

namespace duet {

/// Images with the zeros around them, the same between two neighbours as around each. Results are
/// positions, each at the upper left of what it meets; of those further on there are none.
struct HaloGeometry {
  int images, image_height, image_width, channels;
  int pad_h, pad_w, height, width;  // with the zeros
  int out_height, out_width;
  int taps_h, taps_w, step_h, step_w,
      first;   // tap (r, s) begins at row first + r step_h + s step_w
  int blocks;  // of 64 channels
  int rows;    // that a tile and its halo take
  FastDivisor by_width, by_height;

  /// Result p meets, at tap r, element p + axis.first + r * axis.step, which may be negative.
  /// REQUIRES: strides of 1, and no result that meets zeros alone along an axis.
  HaloGeometry(int images_, int image_height_, int image_width_, int channels_, const TapAxis& h,
               const TapAxis& w, int out_height_, int out_width_, int tile_rows)
      : images(images_),
        image_height(image_height_),
        image_width(image_width_),
        channels(channels_),
        pad_h(-lowest(h)),
        pad_w(-lowest(w)),
        height(image_height + std::max(pad_h, beyond(h, image_height, out_height_))),
        width(image_width + std::max(pad_w, beyond(w, image_width, out_width_))),
        out_height(out_height_),
        out_width(out_width_),
        taps_h(h.count),
        taps_w(w.count),
        step_h(h.step * width),
        step_w(w.step),
        first((h.first + pad_h) * width + w.first + pad_w),
        blocks(ceil_div(channels, kStepDepth<bfloat16>)),
        rows(tile_rows + reach(h) * width + reach(w)),
        by_width(width),
        by_height(height) {}

  __host__ __device__ int positions() const { return images * height * width; }

 private:
  static int reach(const TapAxis& axis) { return (axis.count - 1) * std::abs(axis.step); }
  /// The element that the first result meets first.
  static int lowest(const TapAxis& axis) {
    return axis.first + (axis.step < 0 ? (axis.count - 1) * axis.step : 0);
  }
  /// How far the last result reaches beyond the last element.
  static int beyond(const TapAxis& axis, int size, int results) {
    return std::max(0, results - 1 + lowest(axis) + reach(axis) - (size - 1));
  }
};

/// [n][height][width][channels].
struct HaloImages : HaloGeometry {
  CUtensorMap map;

  HaloImages(const HaloGeometry& geometry, const bfloat16* from)
      : HaloGeometry(geometry),
        map(position_map(from, images, image_height, image_width, channels, {pad_h, pad_w},
                         {height - image_height - pad_h, width - image_width - pad_w}, rows)) {}

  struct Start {
    int position;
  };
  /// 64 channels of the tile from `position` on, with its halo.
  __device__ __forceinline__ void copy(int position, int block, char* shared,
                                       const CopyBarrier& barrier) const {
    int rest, column, n, row;
    by_width.divmod(position, rest, column);
    by_height.divmod(rest, n, row);
    copy_positions(shared, map, block * kStepDepth<bfloat16>, column - pad_w, row - pad_h, n,
                   barrier);
  }
  __device__ __forceinline__ bool locate(const Start& start, int i, int& image, int& pixel) const {
    int rest, column, row;
    by_width.divmod(start.position + i, rest, column);
    by_height.divmod(rest, image, row);
    pixel = row * out_width + column;
    return image < images && row < out_height && column < out_width;
  }
};

/// `slices` times 128 positions x `columns`.
template <int slices, int columns, int stages, int blocks>
struct HaloTile {
  static constexpr int kSlices = slices, kRows = 128 * slices, kStages = stages;
  using Slice = WgmmaTile<columns, stages, blocks>;
};

template <class Tile>
struct HaloBarriers {
  CopyBarrier full[Tile::kStages], empty[Tile::kStages];
  CopyBarrier image_full[2], image_empty[2];
  int row_at[Tile::Slice::kM];
};

/// Bytes of 64 channels of a tile.
__host__ __device__ inline int halo_bytes(int rows) { return round_up(rows * kRowBytes, 1024); }

/// Of shared memory, to begin at a multiple of 1024.
template <class Tile>
size_t halo_smem_bytes(int rows, int blocks) {
  return 1024 + round_up(int(sizeof(HaloBarriers<Tile>)), 1024) +
         std::max(WgmmaTileMemory<typename Tile::Slice>::kBytes,
                  size_t(std::min(blocks, 2)) * halo_bytes(rows) +
                      Tile::kStages * Tile::Slice::kN * kRowBytes);
}

// blockIdx.x is a tile of positions, y one of B's rows.
template <class Tile, class B, class Result>
__global__ void __launch_bounds__(Tile::Slice::kThreads, Tile::Slice::kBlocks)
    wgmma_halo_kernel(const __grid_constant__ HaloImages a, const __grid_constant__ B b,
                      const __grid_constant__ Result result) {
#if DUET_HAS_WGMMA
  using Slice = typename Tile::Slice;
  constexpr int kStages = Tile::kStages, kSlices = Tile::kSlices,
                kStageBytes = Slice::kN * kRowBytes;
  extern __shared__ char dynamic[];
  char* const aligned = reinterpret_cast<char*>((uintptr_t(dynamic) + 1023) & ~uintptr_t{1023});
  auto& barriers = *reinterpret_cast<HaloBarriers<Tile>*>(aligned);
  char* const images = aligned + round_up(int(sizeof(HaloBarriers<Tile>)), 1024);
  const int image_bytes = halo_bytes(a.rows);
  char* const stages = images + min(a.blocks, 2) * image_bytes;
  const int tid = threadIdx.x, group = tid / 128, taps = a.taps_h * a.taps_w;
  const int position = blockIdx.x * Tile::kRows;
  if (tid == 0) {
    for (int i = 0; i < kStages; ++i) {
      barriers.full[i].init();
      barriers.empty[i].init(2);
    }
    for (int i = 0; i < 2; ++i) {
      barriers.image_full[i].init();
      barriers.image_empty[i].init(2);
    }
  }
  __syncthreads();
  if (group == 2) {
    if (tid == Slice::kMultipliers) {
      wait_for_primary();
      const auto start_b = b.template start<Slice::kN>(blockIdx.y);
      const uint32_t bytes = b.template bytes<Slice::kN>();
      int stage = 0, phase = 0;
      for (int block = 0, i = 0; block < a.blocks; ++block) {
        const int at = block % 2;
        if (block >= 2) barriers.image_empty[at].wait(block / 2 - 1);
        barriers.image_full[at].expect(a.rows * kRowBytes);
        a.copy(position, block, images + at * image_bytes, barriers.image_full[at]);
        for (int tap = 0; tap < taps; ++tap, ++i) {
          if (i >= kStages) barriers.empty[stage].wait(phase ^ 1);
          barriers.full[stage].expect(bytes);
          b.template copy<Slice::kN>(start_b, tap * a.blocks + block, stages + stage * kStageBytes,
                                     barriers.full[stage]);
          if (++stage == kStages) stage = 0, phase ^= 1;
        }
      }
    }
  } else {
    float d[kSlices][Slice::kN / 2];
    int stage = 0, phase = 0;
    for (int block = 0, i = 0; block < a.blocks; ++block) {
      barriers.image_full[block % 2].wait(block / 2);
      const char* const image = images + block % 2 * image_bytes;
      for (int r = 0, tap = 0; r < a.taps_h; ++r) {
        for (int s = 0; s < a.taps_w; ++s, ++tap, ++i) {
          // region tap
          barriers.full[stage].wait(phase);
          const char* const rows_a =
              image + (a.first + r * a.step_h + s * a.step_w + group * kPanel) * kRowBytes;
          const char* const rows_b = stages + stage * kStageBytes;
          // end tap
          wgmma_begin();
#pragma unroll
          for (int k = 0; k < kRowBytes / 32; ++k) {
            constexpr int kBlock = kPanel * kRowBytes;
            constexpr int kNextB = B::kTurned ? 16 * kRowBytes : 32;
#pragma unroll
            for (int j = 0; j < kSlices; ++j)
              Wgmma<bfloat16, Slice::kN, false, B::kTurned>::multiply(
                  d[j], matrix_descriptor(rows_a + j * 128 * kRowBytes + k * 32, kBlock),
                  matrix_descriptor(rows_b + k * kNextB, kBlock), i > 0 || k > 0);
          }
          wgmma_commit();
          wgmma_wait<1>();  // the step before has read its stage
          if (i > 0 && tid % 128 == 0) {
            barriers.empty[stage == 0 ? kStages - 1 : stage - 1].arrive();
            if (tap == 0) barriers.image_empty[(block - 1) % 2].arrive();
          }
          if (++stage == kStages) stage = 0, phase ^= 1;
        }
      }
    }
    wgmma_wait<0>();
#pragma unroll
    for (int j = 0; j < kSlices; ++j) wgmma_settle(d[j]);
#pragma unroll
    for (int j = 0; j < kSlices; ++j) {
      wait_multipliers<Slice>();  // nobody reads the operands, or the slice before, any more
      result.template store<Slice>(d[j], a, HaloImages::Start{position + j * Slice::kM},
                                   WgmmaTileMemory<Slice>{images, barriers.row_at});
    }
  }
#else
  __trap();
#endif
}

template <class Tile, class B, class Result>
void launch_wgmma_halo(const HaloImages& a, const B& b, int columns, const Result& result,
                       cudaStream_t stream) {
  const auto kernel = wgmma_halo_kernel<Tile, B, Result>;
  const size_t bytes = halo_smem_bytes<Tile>(a.rows, a.blocks);
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  launch({.gridDim = dim3(ceil_div(a.positions(), Tile::kRows), ceil_div(columns, Tile::Slice::kN)),
          .blockDim = Tile::Slice::kThreads,
          .dynamicSmemBytes = bytes,
          .stream = stream},
         {overlaps_primary()}, kernel, a, b, result);
}

}  // namespace duet
