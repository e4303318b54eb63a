// A 3x3 convolution of stride 1 in tf32 by Hopper's wgmma, of images eight side by side (image_blocks.cuh): the form that
// wgmma_filter.cuh reads, so that all three passes share what is staged.
//
// The instruction takes its first operand from registers, where any order will do: a warp has a patch of eight images in
// registers, row by row, and a tap is another two of its pixels. So an image is read from shared memory once for all taps,
// and what a multiprocessor reads there are the weights, the second operand, for 64 rows of the first: half of what it could.
// Mapping: a unit is kRows x 2 results of eight images, which a warp has, kN output channels of them in registers, a window of a
// pooling among them. Units are numbered through columns, images, and rows; a block takes tiles of eight of them, a warpgroup four.
// One more warp starts copies: of eight channels the weights of nine taps, and of the patches pairs of columns, of which
// neighbouring units share one.
// Traffic: weights once a tile, 256 positions x 128 channels or 512 x 64; images once a column of tiles and 2 to 2.6 times by
// what patches have in common; all mostly from L2.
#pragma once

#include "kernels/block_units.cuh"
#include "kernels/wgmma_filter_rows.cuh"
#include "kernels/wgmma_split.cuh"

namespace duet {

/// Of so many output channels and rows of results of a unit; with `split` of float32 operands, as three products of tf32
/// (wgmma_split.cuh).
template <int channels, int rows, bool split = false>
struct BlockTile {
  static constexpr int kParts = split ? 2 : 1;  // of a value: its head and its rest
  static constexpr int kN = channels, kRows = rows, kTaps = 3;
  static constexpr int kColumns = 2, kImages = ImageBlocks::kImages;
  static constexpr int kPatchRows = kRows + kTaps - 1;
  static_assert(kPatchRows % 2 == 0);  // rows alternate between registers, from step to step too
  static constexpr int kGroups = 2, kUnits = kGroups * 4;
  static constexpr int kMultipliers = kGroups * 128;
  static constexpr int kThreads = kMultipliers + 128;  // of registers, which multiplying ones take
  static constexpr int kStages = 3;
  /// A step: eight channels of eight images at a pixel, and of all taps' weights. Pixels of a column lie together; neighbouring
  /// columns begin in different banks.
  static constexpr int kDepth = 8, kPixel = kDepth * kImages;
  static constexpr int kColumnPitch = kPatchRows * kPixel + 4;                   // floats
  static constexpr int kMostBoxes = kUnits + 3, kBox = kColumns * kColumnPitch;  // of two columns
  static constexpr int kTapBytes = kN * kDepth * int(sizeof(float));
  static constexpr int kWeightBytes = kParts * kTaps * kTaps * kTapBytes;
  static constexpr int kBoxBytes = kBox * int(sizeof(float));
  static constexpr int kStageBytes = kWeightBytes + kMostBoxes * kBoxBytes;

  /// By the threads of a warpgroup.
  __device__ static void wait_group(int group) {
    if (group == 0)
      asm volatile("bar.sync 1, 128;" ::: "memory");
    else
      asm volatile("bar.sync 2, 128;" ::: "memory");
  }
};

/// Images as they lie, in planes, of which parts of patches are copied.
struct PlanarPatches {
  const float* from;
  int images, channels, height, width, pad_h, pad_w;
  int steps = ceil_div(channels, 8);
};

struct BlockBarriers {
  CopyBarrier full[8], empty[8];
};

template <class Tile, class Result>
constexpr int block_smem_bytes() {
  return 1024 + Tile::kStages * Tile::kStageBytes + int(sizeof(BlockBarriers)) +
         Tile::kGroups * Result::kBytes;
}

#if DUET_HAS_WGMMA

/// Of a value what is multiplied.
template <int parts>
__device__ __forceinline__ void take_parts(float value, uint32_t (&of)[parts]) {
  if constexpr (parts == 1) {
    of[0] = __float_as_uint(tf32_rounded(value));
  } else {
    const float head = rounded_head(value);
    of[0] = __float_as_uint(head);
    of[1] = __float_as_uint(value - head);
  }
}

/// d = the products of rows and the weights of a tap, or with `adds` d +=; small products come first. Rests of weights lie behind
/// those of all taps.
template <class Tile>
__device__ __forceinline__ void multiply_tap(float (&d)[Tile::kN / 2],
                                             const uint32_t (&rows)[Tile::kParts][4],
                                             uint64_t weights, bool adds) {
  using Product = WgmmaRows<Tile::kN>;
  if constexpr (Tile::kParts == 2) {
    Product::multiply(d, rows[0], weights + (Tile::kWeightBytes / 2 >> 4), adds);
    Product::multiply(d, rows[1], weights, true);
  }
  Product::multiply(d, rows[0], weights, Tile::kParts == 2 || adds);
}

/// Of a row of a warp's patch what the taps of a row of the kernel multiply: each two of its four pixels.
template <class Tile>
struct PatchRow {
  uint32_t of[3][Tile::kParts][4];

  /// `from`: of the lane, image lane / 4 and channels lane % 4 and 4 more.
  __device__ __forceinline__ void load(const float* from) {
    uint32_t pixel[4][2][Tile::kParts];
#pragma unroll
    for (int column = 0; column < 4; ++column)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        take_parts(from[column * Tile::kColumnPitch + i * 4 * Tile::kImages], pixel[column][i]);
#pragma unroll
    for (int s = 0; s < 3; ++s)
#pragma unroll
      for (int part = 0; part < Tile::kParts; ++part)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          of[s][part][i] = pixel[s + i % 2][i / 2][part];
          // Here and not between the instructions, which would have to wait for it.
          asm volatile("" : "+r"(of[s][part][i])::"memory");
        }
  }
};

/// d = the sums of a tile over all steps; `patch`: where the lane's begins in a stage, in floats.
template <class Tile>
__device__ __forceinline__ void multiply_patches(const char* stages, BlockBarriers& barriers,
                                                 RingPlace& at, int steps, int patch,
                                                 float (&d)[Tile::kRows][Tile::kN / 2]) {
  constexpr int kTaps = Tile::kTaps;
  constexpr bool kApart =
      Tile::kParts == 2;  // sums of a step, which ordinary additions add to the others
  const bool leads = threadIdx.x % 32 == 0;
#pragma unroll
  for (auto& sums : d)
#pragma unroll
    for (float& sum : sums) sum = 0.f;
  int last = at.slot;
  PatchRow<Tile> rows[kApart ? 1 : 2];  // for more there are no registers
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    barriers.full[at.slot].wait(at.round);
    const char* const stage = stages + at.slot * Tile::kStageBytes;
    const float* const from = reinterpret_cast<const float*>(stage + Tile::kWeightBytes) + patch;
    const uint64_t of_weights = core_descriptor(stage);
    float apart[kApart ? Tile::kRows : 1][Tile::kN / 2];
#pragma unroll
    for (int q = 0; q < Tile::kPatchRows; ++q) {
      PatchRow<Tile>& row = rows[kApart ? 0 : q % 2];
      row.load(from + q * Tile::kPixel);
      wgmma_begin();
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
#pragma unroll
        for (int m = 0; m < Tile::kRows; ++m) {
          const int r = q - m;
          if (r < 0 || r >= kTaps) continue;
          multiply_tap<Tile>(kApart ? apart[kApart ? m : 0] : d[m], row.of[s],
                             of_weights + (r * kTaps + s) * (Tile::kTapBytes >> 4),
                             !kApart || r > 0 || s > 0);
        }
      }
      wgmma_commit();
      wgmma_wait<kApart ? 0 : 1>();  // the row before, whose registers the next takes
      if (!kApart && q == 0 && step > 0 && leads) barriers.empty[last].arrive();
    }
    if constexpr (kApart) {
      if (leads) barriers.empty[at.slot].arrive();
#pragma unroll
      for (int m = 0; m < Tile::kRows; ++m) {
        wgmma_settle(apart[m]);
#pragma unroll
        for (int i = 0; i < Tile::kN / 2; ++i) d[m][i] += apart[m][i];
      }
    }
    last = at.slot;
    at.next(Tile::kStages);
  }
  if constexpr (kApart) return;
  wgmma_wait<0>();
  if (leads) barriers.empty[last].arrive();
#pragma unroll
  for (auto& sums : d) wgmma_settle(sums);
}

#endif

// blockIdx.x takes units, y is one of kN output channels. `weights` lie as conv2d_pool_relu_wgmma_blocks.cu writes them.
template <class Tile, class Result>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    wgmma_blocks_kernel(const __grid_constant__ PlanarPatches images, const float* weights,
                        const __grid_constant__ BlockUnits units,
                        const __grid_constant__ Result result) {
#if DUET_HAS_WGMMA
  constexpr int kStages = Tile::kStages;
  extern __shared__ char dynamic[];
  char* const stages = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  char* const results = stages + kStages * Tile::kStageBytes;
  auto& barriers = *reinterpret_cast<BlockBarriers*>(results + Tile::kGroups * Result::kBytes);
  // Of which the compiler is to know that a warp's threads agree.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int tid = threadIdx.x, lane = tid % 32;
  if (tid == 0) {
    for (int i = 0; i < kStages; ++i) {
      barriers.full[i].init(128 + 1);  // copying threads, and the weights
      barriers.empty[i].init(Tile::kGroups * 4);
    }
  }
  __syncthreads();
  if (group == Tile::kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    const int warp = __shfl_sync(~0u, tid / 32 % 4, 0);
    wait_for_primary();
    RingPlace at;
    const float* const from =
        weights + size_t(blockIdx.y) * images.steps * (Tile::kWeightBytes / 4);
    const int plane = images.height * images.width;
    units.for_tiles(blockIdx.x, [&](int first, int count) {
      const BlockUnits::Place begin = units.place(first), end = units.place(first + count - 1);
      const int columns = Tile::kColumns * (count + end.run - begin.run + 1);
      // Lanes are eight columns of four images and of four more; a warp copies two channels.
      constexpr int kPieces = (Tile::kColumns * Tile::kMostBoxes + 7) / 8, kOfWarp = 2,
                    kOfPiece = 2 * Tile::kPatchRows;
      static_assert(kPieces * kOfPiece <= 64);
      const float* of_lane[kPieces];  // the first row of the first channel
      uint64_t inside = 0;            // of a piece, the halves' rows
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int column = piece * 8 + lane / 4;
        const BlockUnits::Place box = units.box(begin, column / Tile::kColumns);
        const int q = box.pair * Tile::kColumns + column % Tile::kColumns - images.pad_w;
        const int h = box.strip * Tile::kRows - images.pad_h;
        const int n = box.group * Tile::kImages + lane % 4;
        of_lane[piece] = images.from + (int64_t(n) * images.channels + warp * kOfWarp) * plane +
                         h * images.width + q;
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int row = 0; row < Tile::kPatchRows; ++row)
            if (uint32_t(q) < uint32_t(images.width) && n + half * 4 < images.images &&
                uint32_t(h + row) < uint32_t(images.height))
              inside |= uint64_t{1} << (piece * kOfPiece + half * Tile::kPatchRows + row);
      }
      const int64_t half_images = int64_t{4} * images.channels * plane;
      for (int step = 0; step < images.steps; ++step) {
        if (at.round > 0) barriers.empty[at.slot].wait(at.round - 1);
        char* const stage = stages + at.slot * Tile::kStageBytes;
        if (tid == Tile::kMultipliers) {
          barriers.full[at.slot].expect(Tile::kWeightBytes);
          bulk_copy(reinterpret_cast<float*>(stage), from + step * (Tile::kWeightBytes / 4),
                    Tile::kWeightBytes, barriers.full[at.slot]);
        }
        const int channel = step * Tile::kDepth + warp * kOfWarp;
        const auto to = uint32_t(__cvta_generic_to_shared(
            reinterpret_cast<float*>(stage + Tile::kWeightBytes) + lane / 4 * Tile::kColumnPitch +
            warp * kOfWarp * Tile::kImages + lane % 4));
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          if (piece * 8 + lane / 4 >= columns) continue;
#pragma unroll
          for (int i = 0; i < kOfWarp; ++i) {
            const bool channel_there = channel + i < images.channels;
            const float* addresses[kOfPiece];
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
              for (int row = 0; row < Tile::kPatchRows; ++row)
                addresses[half * Tile::kPatchRows + row] = of_lane[piece] +
                                                           (step * Tile::kDepth + i) * plane +
                                                           half * half_images + row * images.width;
            settle_addresses(addresses);
#pragma unroll
            for (int half = 0; half < 2; ++half)
#pragma unroll
              for (int row = 0; row < Tile::kPatchRows; ++row) {
                const int number = half * Tile::kPatchRows + row;
                copy_word(to + (piece * 8 * Tile::kColumnPitch + row * Tile::kPixel +
                                i * Tile::kImages + half * 4) *
                                   4,
                          addresses[number],
                          channel_there && (inside >> (piece * kOfPiece + number) & 1));
              }
          }
        }
        arrive_after_copies(barriers.full[at.slot]);
        at.next(kStages);
      }
    });
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
  const int warp = __shfl_sync(~0u, tid / 32 % 4, 0);
  RingPlace at;
  float d[Tile::kRows][Tile::kN / 2];
  units.for_tiles(blockIdx.x, [&](int first, int count) {
    const int mine = first + group * 4, here = min(4, count - group * 4);
    if (here <= 0) {
      for (int step = 0; step < images.steps; ++step, at.next(kStages)) {
        barriers.full[at.slot].wait(at.round);
        if (lane == 0) barriers.empty[at.slot].arrive();
      }
      return;
    }
    const BlockUnits::Place begin = units.place(first),
                            own = units.place(mine + min(warp, here - 1));
    const int box = group * 4 + min(warp, here - 1) + own.run - begin.run;
    const int patch = box * Tile::kBox + lane % 4 * Tile::kImages + lane / 4;
    multiply_patches<Tile>(stages, barriers, at, images.steps, patch, d);
    result.template store<Tile>(d, units, mine, here, group, int(blockIdx.y) * Tile::kN,
                                reinterpret_cast<float*>(results + group * Result::kBytes));
  });
#else
  __trap();
#endif
}

template <class Tile, class Result>
void launch_wgmma_blocks(const PlanarPatches& images, const float* weights, const BlockUnits& units,
                         int channels, const Result& result, cudaStream_t stream) {
  const auto kernel = wgmma_blocks_kernel<Tile, Result>;
  constexpr int kBytes = block_smem_bytes<Tile, Result>();
  static_assert(kBytes <= 227 * 1024);
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  launch({.gridDim = dim3(units.blocks, ceil_div(channels, Tile::kN)),
          .blockDim = Tile::kThreads,
          .dynamicSmemBytes = kBytes,
          .stream = stream},
         {overlaps_primary()}, kernel, images, weights, units, result);
}

}  // namespace duet
