// A convolution of stride 1 by Hopper's wgmma: out[channel][position] = sum over taps and input channels of
// weight(channel, tap, input) * image(position + tap, input), where a block's positions and those that its
// taps reach around them, the halo, are brought to shared memory once for all taps.
//
// Mapping: block = 128 output channels x kN positions, or 64 x 2 kN. Each of two warpgroups multiplies 64
// rows of weights by kN positions: the instruction reads 64 rows of its first operand and as many as it is
// asked for of its second, and by the second, the positions, it reads less for a product the more there are.
// Fewer than the 128 of two blocks a multiprocessor serve where more blocks, each shorter, fill all multiprocessors.
// Positions follow each other through rows and images with the zeros between them, so that a tap
// is the same rows of shared memory, further on by a number that depends on the tap alone. Positions
// with no result (between images) are computed and not stored. One thread of one more warp starts copies: of the
// weights kStages steps ahead, of the image 128 bytes of channels ahead.
// Traffic: the image is read once a column of tiles, with its halo; weights once a row of tiles, 128 bytes at a
// time, mostly from L2, which a product of gathered operands (wgmma_product.cuh) reads nine times as
// often for a 3x3 kernel.
#pragma once

#include "kernels/moment_parts.cuh"
#include "kernels/wgmma_product.cuh"

namespace duet {

/// Images with the zeros around them, the same between two neighbours as around each. Results are
/// positions, each at the upper left of what it meets; of those further on there are none.
struct HaloGeometry {
  int images, image_height, image_width, channels;
  int pad_h, pad_w, height, width;  // with the zeros
  int out_height, out_width;
  int taps_h, taps_w, step_h, step_w,
      first;  // tap (r, s) begins at row first + r step_h + s step_w
  FastDivisor by_width, by_height;

  /// Result p meets, at tap r, element p + axis.first + r * axis.step, which may be negative.
  /// REQUIRES: strides of 1, and no result that meets zeros alone along an axis.
  HaloGeometry(int images_, int image_height_, int image_width_, int channels_, const TapAxis& h,
               const TapAxis& w, int out_height_, int out_width_)
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
        by_width(width),
        by_height(height),
        reach_(reach(h) * width + reach(w)) {}

  __host__ __device__ int positions() const { return images * height * width; }
  int taps() const { return taps_h * taps_w; }
  /// Of `positions` and those around them.
  int rows(int positions) const { return positions + reach_; }

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

  int reach_;
};

/// [n][height][width][channels] of bfloat16 or float, for tiles of so many positions.
template <class T>
struct HaloImages : HaloGeometry {
  CUtensorMap map;
  int tile_rows, blocks;  // with the halo; of kStepDepth channels

  HaloImages(const HaloGeometry& geometry, const T* from, int positions)
      : HaloGeometry(geometry),
        map(position_map(from, images, image_height, image_width, channels, {pad_h, pad_w},
                         {height - image_height - pad_h, width - image_width - pad_w},
                         rows(positions))),
        tile_rows(rows(positions)),
        blocks(ceil_div(channels, kStepDepth<T>)) {}

  /// The tile from `position` on, with its halo.
  __device__ __forceinline__ void copy(int position, int block, char* shared,
                                       const CopyBarrier& barrier) const {
    int rest, column, n, row;
    by_width.divmod(position, rest, column);
    by_height.divmod(rest, n, row);
    copy_positions(shared, map, block * kStepDepth<T>, column - pad_w, row - pad_h, n, barrier);
  }
  __device__ __forceinline__ bool locate(int position, int& image, int& pixel) const {
    int rest, column, row;
    by_width.divmod(position, rest, column);
    by_height.divmod(rest, image, row);
    pixel = row * out_width + column;
    return image < images && row < out_height && column < out_width;
  }
};

/// Of 64 `panels` output channels, each warpgroup with so many positions; `blocks` of them on a multiprocessor at
/// once.
template <int panels, int positions, int stages, int blocks>
struct HaloTile {
  static_assert(panels == 1 || panels == 2);
  static constexpr int kPanels = panels, kRows = kPanel * panels, kN = positions;
  static constexpr int kPositions = kN * 2 / panels, kStages = stages, kBlocks = blocks;
  static constexpr int kMultipliers = 256, kThreads = kMultipliers + 32;
  static constexpr int kStageBytes = kRows * kRowBytes;
  /// After the product: float [channel][position], between whose rows lie so many.
  static constexpr int kPitch = kPositions + 8;
  static constexpr int kResultBytes = kRows * kPitch * int(sizeof(float));

  /// Of moments: a warpgroup's positions are one.
  static int parts(int all) { return ceil_div(all, kPositions) * (3 - kPanels); }

  /// Where a warpgroup's rows and positions begin.
  __device__ static constexpr int row(int group) { return panels == 2 ? group * kPanel : 0; }
  __device__ static constexpr int position(int group) { return panels == 2 ? 0 : group * kN; }
};

template <class Tile>
struct HaloBarriers {
  CopyBarrier full[Tile::kStages], empty[Tile::kStages];
  CopyBarrier image_full[2], image_empty[2];
  int at[Tile::kPositions];
};

/// Of 128 bytes of channels of a tile.
__host__ __device__ inline int halo_bytes(int rows) { return round_up(rows * kRowBytes, 1024); }

/// Of shared memory, to begin at a multiple of 1024.
template <class Tile>
size_t halo_smem_bytes(int rows, int blocks) {
  return 1024 + round_up(int(sizeof(HaloBarriers<Tile>)), 1024) +
         std::max(Tile::kResultBytes,
                  std::min(blocks, 2) * halo_bytes(rows) + Tile::kStages * Tile::kStageBytes);
}

/// Where a product goes: images of `channels` and `pixels` in kLayout, + bias (or nullptr); and the moments of what is
/// stored, if those have parts.
template <Layout kLayout, class T>
struct HaloResult {
  T* out;
  const float* bias;
  int channels, pixels;
  ChannelMoments moments = {};

  /// By the multiplying threads, when nobody reads the operands any more. `at` has room for kPositions, `tile`
  /// for kResultBytes.
  template <class Tile, class Images>
  __device__ __forceinline__ void store(const float (&d)[Tile::kN / 2], const Images& images,
                                        float* tile, int* at) const {
    constexpr bool kPlanes = kLayout == Layout::kNCHW;
    const int tid = threadIdx.x, lane = tid % 32, group = tid / 128;
    const int first = blockIdx.x * Tile::kPositions, k0 = blockIdx.y * Tile::kRows;
    for (int i = tid; i < Tile::kPositions; i += Tile::kMultipliers) {
      int image, pixel;
      const bool inside = images.locate(first + i, image, pixel);
      at[i] = !inside   ? -1
              : kPlanes ? image * channels * pixels + pixel
                        : (image * pixels + pixel) * channels;
    }
    const int row = Tile::row(group) + tid % 128 / 32 * 16 + lane / 4;
    float* const mine = tile + row * Tile::kPitch + Tile::position(group) + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int channel = k0 + row + 8 * i;
      const float b = bias != nullptr && channel < channels ? __ldg(bias + channel) : 0.f;
#pragma unroll
      for (int j = 0; j < Tile::kN / 8; ++j)
        *reinterpret_cast<float2*>(mine + 8 * i * Tile::kPitch + 8 * j) = {
            d[4 * j + 2 * i] + b, d[4 * j + 2 * i + 1] + b};
    }
    wait_multipliers<Tile>();
    if (moments.parts > 0) leave_moments_of<Tile>(d, k0 + row, at);
    if constexpr (kPlanes) {
      constexpr int kStep = Tile::kMultipliers / std::min(Tile::kMultipliers, Tile::kPositions);
      if (kStep * Tile::kPositions < Tile::kMultipliers && tid >= kStep * Tile::kPositions) return;
      for (int p = tid % Tile::kPositions; p < Tile::kPositions; p += Tile::kMultipliers) {
        const int to = at[p];
        if (to < 0) continue;
        const int count = min(Tile::kRows, channels - k0);
#pragma unroll 4
        for (int channel = tid / Tile::kPositions; channel < count; channel += kStep)
          out[to + (k0 + channel) * pixels] = T(tile[channel * Tile::kPitch + p]);
      }
    } else {
      constexpr int kVec = kWidest<T>, kPieces = Tile::kRows / kVec;
      const bool whole = channels % kVec == 0;
#pragma unroll 2
      for (int i = tid; i < kPieces * Tile::kPositions; i += Tile::kMultipliers) {
        const int p = i % Tile::kPositions, piece = i / Tile::kPositions * kVec;
        const int to = at[p], channel = k0 + piece;
        if (to < 0 || channel >= channels) continue;
        Vector<float, kVec> values;
#pragma unroll
        for (int e = 0; e < kVec; ++e) values.v[e] = tile[(piece + e) * Tile::kPitch + p];
        if (whole) {
          duet::store(out + to + channel, values);
        } else {
#pragma unroll
          for (int e = 0; e < kVec; ++e)
            if (channel + e < channels) out[to + channel + e] = T(values.v[e]);
        }
      }
    }
  }

 private:
  /// Of `channel` and that eight further on, of which a quad has the warpgroup's positions.
  template <class Tile>
  __device__ __forceinline__ void leave_moments_of(const float (&d)[Tile::kN / 2], int channel,
                                                   const int* at) const {
    constexpr int kPairs = Tile::kN / 8;
    const int lane = threadIdx.x % 32, group = threadIdx.x / 128;
    const int part = Tile::kPanels == 2 ? blockIdx.x : 2 * blockIdx.x + group;
    const int* const mine = at + Tile::position(group) + lane % 4 * 2;
    uint64_t inside = 0;
#pragma unroll
    for (int j = 0; j < kPairs; ++j) {
      const int2 pair = *reinterpret_cast<const int2*>(mine + 8 * j);
      inside |= uint64_t((pair.x >= 0) + 2 * (pair.y >= 0)) << 2 * j;
    }
    const auto of_quad = [](float value) {
      value += __shfl_xor_sync(~0u, value, 1);
      return value + __shfl_xor_sync(~0u, value, 2);
    };
    const float count = of_quad(__popcll(inside)), share = count > 0.f ? 1.f / count : 0.f;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int k = channel + 8 * i;
      const float b = bias != nullptr && k < channels ? __ldg(bias + k) : 0.f;
      float sum = 0.f, squares = 0.f;
      // The mean first, and then squares about it, so that nothing cancels.
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const StoredPair<T> pair(d[4 * j + 2 * i] + b, d[4 * j + 2 * i + 1] + b);
        if (inside >> 2 * j & 1) sum += pair[0];
        if (inside >> 2 * j & 2) sum += pair[1];
      }
      const float mean = of_quad(sum) * share;
#pragma unroll
      for (int j = 0; j < kPairs; ++j) {
        const StoredPair<T> pair(d[4 * j + 2 * i] + b, d[4 * j + 2 * i + 1] + b);
        if (inside >> 2 * j & 1) squares += (pair[0] - mean) * (pair[0] - mean);
        if (inside >> 2 * j & 2) squares += (pair[1] - mean) * (pair[1] - mean);
      }
      squares = of_quad(squares);
      if (lane % 4 == 0 && k < channels) leave_moments(moments, k, part, mean, squares);
    }
    if (channel == 0 && lane == 0) moments.counts[part] = count;
  }
};

#if DUET_HAS_WGMMA

/// A warpgroup's product of a block of channels and a tap, of rows of 128 bytes.
template <class Weights, int n>
__device__ __forceinline__ void multiply_tap(float (&d)[n / 2], const char* weights,
                                             const char* positions, bool adds) {
  constexpr int kNext = Weights::kTurned ? 16 * kRowBytes : 32;
  wgmma_begin();
#pragma unroll
  for (int k = 0; k < kRowBytes / 32; ++k)
    Wgmma<typename Weights::Element, n, Weights::kTurned, false>::multiply(
        d, matrix_descriptor(weights + k * kNext, 0), matrix_descriptor(positions + k * 32, 0),
        adds || k > 0);
  wgmma_commit();
}

#endif

// blockIdx.x is a tile of positions, y one of output channels. `weights` as wgmma_operands.cuh has operands.
template <class Tile, class Weights, class Result, class T = typename Weights::Element>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kBlocks)
    wgmma_halo_kernel(const __grid_constant__ Weights weights,
                      const __grid_constant__ HaloImages<T> a,
                      const __grid_constant__ Result result) {
#if DUET_HAS_WGMMA
  constexpr int kStages = Tile::kStages, kStageBytes = Tile::kStageBytes;
  extern __shared__ char dynamic[];
  // By an offset, which leaves the compiler to know that this is shared memory.
  char* const aligned = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto& barriers = *reinterpret_cast<HaloBarriers<Tile>*>(aligned);
  char* const images = aligned + round_up(int(sizeof(HaloBarriers<Tile>)), 1024);
  const int image_bytes = halo_bytes(a.tile_rows);
  char* const stages = images + min(a.blocks, 2) * image_bytes;
  const int tid = threadIdx.x, group = tid / 128, taps = a.taps_h * a.taps_w;
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
    if (tid == Tile::kMultipliers) {
      wait_for_primary();
      const auto start = weights.template start<Tile::kRows>(blockIdx.y);
      const int position = blockIdx.x * Tile::kPositions;
      const auto copy_image = [&](int block) {
        const int at = block % 2;
        if (block >= 2) barriers.image_empty[at].wait(block / 2 - 1);
        barriers.image_full[at].expect(a.tile_rows * kRowBytes);
        a.copy(position, block, images + at * image_bytes, barriers.image_full[at]);
      };
      copy_image(0);
      int stage = 0, phase = 0;
      for (int block = 0, i = 0; block < a.blocks; ++block) {
        for (int tap = 0; tap < taps; ++tap, ++i) {
          if (i >= kStages) barriers.empty[stage].wait(phase ^ 1);
          barriers.full[stage].expect(weights.template bytes<Tile::kRows>());
          weights.template copy<Tile::kRows>(start, tap * a.blocks + block,
                                             stages + stage * kStageBytes, barriers.full[stage]);
          if (++stage == kStages) stage = 0, phase ^= 1;
          // As early as this thread need not wait: there the block before has been multiplied.
          if (tap == min(kStages, taps - 1) && block + 1 < a.blocks) copy_image(block + 1);
        }
      }
    }
  } else {
    float sums[Tile::kN / 2];
    const char* const mine = images + Tile::position(group) * kRowBytes;
    const int row_bytes = Tile::row(group) * kRowBytes;
    int stage = 0, phase = 0;
    for (int block = 0, i = 0; block < a.blocks; ++block) {
      barriers.image_full[block % 2].wait(block / 2);
      const char* const image = mine + block % 2 * image_bytes;
      for (int r = 0, tap = 0; r < a.taps_h; ++r) {
        for (int s = 0; s < a.taps_w; ++s, ++tap, ++i) {
          // region tap
          barriers.full[stage].wait(phase);
          multiply_tap<Weights, Tile::kN>(
              sums, stages + stage * kStageBytes + row_bytes,
              image + (a.first + r * a.step_h + s * a.step_w) * kRowBytes, i > 0);
          // end tap
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
    wgmma_settle(sums);
    wait_multipliers<Tile>();  // nobody reads the operands any more
    result.template store<Tile>(sums, a, reinterpret_cast<float*>(images), barriers.at);
  }
#else
  __trap();
#endif
}

template <class Tile, class Weights, class T, class Result>
void launch_wgmma_halo(const Weights& weights, const HaloImages<T>& a, int channels,
                       const Result& result, cudaStream_t stream) {
  const auto kernel = wgmma_halo_kernel<Tile, Weights, Result>;
  const size_t bytes = halo_smem_bytes<Tile>(a.tile_rows, a.blocks);
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  launch(
      {.gridDim = dim3(ceil_div(a.positions(), Tile::kPositions), ceil_div(channels, Tile::kRows)),
       .blockDim = Tile::kThreads,
       .dynamicSmemBytes = bytes,
       .stream = stream},
      {overlaps_primary()}, kernel, weights, a, result);
}

}  // namespace duet
