// dx of a 3x3 convolution of stride 1 behind a pooling of 2x2 windows, in tf32 by Hopper's wgmma, from dy and the places of the
// maxima.
//
// The instruction takes its first operand from registers, where any order will do: its rows are eight images at two neighbouring
// positions. A warp makes the pixels of dz that its results reach, in registers, of the windows they are in, and a tap is another two
// of them: dz is never in memory, and dy is not read again for another tap.
// Mapping: a unit is 2 x 2 results of eight images, which a warp has, of 64 channels, in registers; what it reads are 2 x 2
// windows. A block takes tiles of twelve units, a warpgroup four. Four more warps copy: of eight filters the weights of nine
// taps, and of windows of pairs of rows columns, of which neighbouring units share one. Rows of windows beyond the image are
// left out of the product.
// Traffic: weights once a tile, 384 results x 64 channels; dy about twice.
#pragma once

#include "kernels/block_units.cuh"
#include "kernels/tf32.cuh"
#include "kernels/wgmma_filter_rows.cuh"

namespace duet {

struct WindowTile {
  static constexpr int kN = 64, kRows = 2, kColumns = 2, kTaps = 3, kImages = ImageBlocks::kImages;
  static constexpr int kGroups = 3, kUnits = kGroups * 4;
  static constexpr int kMultipliers = kGroups * 128, kThreads = kMultipliers + 128;
  static constexpr int kStages = 4;
  /// A step: eight filters of eight images, of boxes of two windows below each other, and of all taps' weights; neighbouring
  /// boxes begin in different banks.
  static constexpr int kDepth = 8, kWindow = kDepth * kImages, kMostBoxes = kUnits + 4;
  static constexpr int kBox = 2 * kWindow + 4, kCodes = 2 * kImages + 4;  // words
  static constexpr int kTapBytes = kN * kDepth * int(sizeof(float));
  static constexpr int kWeightBytes = kTaps * kTaps * kTapBytes;
  static constexpr int kStageBytes = kWeightBytes + kMostBoxes * (kBox + kCodes) * 4;
  /// Of results, whose writers are eight images and four channels, so that these are in different banks.
  static constexpr int kTileColumns = kUnits * kColumns, kChannelPitch = kRows * kTileColumns + 4,
                       kImagePitch = kN * kChannelPitch + 2;
  static constexpr int kResultBytes = kImages * kImagePitch * int(sizeof(float));
};

struct WindowBarriers {
  CopyBarrier full[WindowTile::kStages], empty[WindowTile::kStages];
};

/// dy of windows and their codes (packed_argmax.cuh), in planes; the first unit's first window is in row0 and column0.
struct PooledPatches {
  const float* dy;
  const uint32_t* codes;
  int images, filters, height, width, row0, column0;
  int steps = ceil_div(filters, 8);  // a word of codes each
};

/// Planes of which units have all rows and columns from -above and -left on but some last ones, which are zeros.
struct PlaneGradients {
  float* to;
  int images, channels, height, width, above, left;
};

#if DUET_HAS_WGMMA

/// Of two rows of a warp's patch what the taps of a row of the kernel multiply: each two of their four pixels.
struct WindowRows {
  uint32_t of[2][3][4];

  /// `windows` and `codes` are of the lane: image lane / 4, filters lane % 4 and 4 more.
  __device__ __forceinline__ void load(const float* windows, const uint32_t* codes, int shift) {
    using Tile = WindowTile;
    uint32_t pixel[2][4][2];
#pragma unroll
    for (int column = 0; column < 2; ++column) {
      const uint32_t word = codes[column * Tile::kCodes] >> shift;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t code = word >> 16 * i & 15;
        const uint32_t value =
            __float_as_uint(tf32_rounded(windows[column * Tile::kBox + i * 4 * Tile::kImages]));
#pragma unroll
        for (uint32_t place = 0; place < 4; ++place)
          pixel[place / 2][2 * column + place % 2][i] = code == place ? value : 0;
      }
    }
#pragma unroll
    for (int row = 0; row < 2; ++row)
#pragma unroll
      for (int s = 0; s < 3; ++s)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          of[row][s][i] = pixel[row][s + i % 2][i / 2];
          // Here and not between the instructions, which would have to wait for it.
          asm volatile("" : "+r"(of[row][s][i])::"memory");
        }
  }
};

/// d = the sums of a tile over all steps; `box` is the warp's first. Of the two windows below each other, without those that are
/// beyond all images of the warpgroup.
template <bool upper, bool lower>
__device__ __forceinline__ void multiply_windows(const char* stages, WindowBarriers& barriers,
                                                 RingPlace& at, int steps, int box,
                                                 float (&d)[2][32]) {
  using Tile = WindowTile;
  const int lane = threadIdx.x % 32;
  const int windows_at = box * Tile::kBox + lane % 4 * Tile::kImages + lane / 4;
  const int codes_at = Tile::kMostBoxes * Tile::kBox + box * Tile::kCodes + lane / 4;
#pragma unroll
  for (auto& sums : d)
#pragma unroll
    for (float& sum : sums) sum = 0.f;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    barriers.full[at.slot].wait(at.round);
    const char* const stage = stages + at.slot * Tile::kStageBytes;
    const auto* const values = reinterpret_cast<const float*>(stage + Tile::kWeightBytes);
    const uint64_t of_weights = core_descriptor(stage);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (!(h == 0 ? upper : lower)) continue;
      WindowRows rows;
      rows.load(values + windows_at + h * Tile::kWindow,
                reinterpret_cast<const uint32_t*>(values) + codes_at + h * Tile::kImages,
                lane % 4 * 4);
      wgmma_begin();
#pragma unroll
      for (int row = 0; row < 2; ++row)
#pragma unroll
        for (int s = 0; s < Tile::kTaps; ++s)
#pragma unroll
          for (int m = 0; m < Tile::kRows; ++m) {
            const int r = 2 * h + row - m;
            if (r < 0 || r >= Tile::kTaps) continue;
            WgmmaRows<Tile::kN>::multiply(
                d[m], rows.of[row][s], of_weights + (r * Tile::kTaps + s) * (Tile::kTapBytes >> 4),
                true);
          }
      wgmma_commit();
      wgmma_wait<0>();  // meanwhile the other warpgroups multiply
    }
    if (lane == 0) barriers.empty[at.slot].arrive();
    at.next(Tile::kStages);
  }
#pragma unroll
  for (auto& sums : d) wgmma_settle(sums);
}

/// By all multiplying warps, of `count` units from `first` on, from their sums in shared memory.
__device__ __forceinline__ void store_planes(const float* sums, const PlaneGradients& to,
                                             const BlockUnits& units, int first, int count,
                                             int channel0) {
  using Tile = WindowTile;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  // A lane has a column of a unit, or the zeros behind the last column of a row.
  const bool has = lane < Tile::kTileColumns;
  const int unit =
      has ? lane / Tile::kColumns
          : units.pairs - 1 - units.place(first).pair + (lane - Tile::kTileColumns) * units.pairs;
  const BlockUnits::Place at = units.place(first + min(unit, count - 1));
  const int column =
      Tile::kColumns * at.pair - to.left + (has ? lane % Tile::kColumns : Tile::kColumns);
  const int row0 = Tile::kRows * at.strip - to.above, image0 = at.group * Tile::kImages;
  const bool stores = unit < count && uint32_t(column) < uint32_t(to.width);
  const int below = at.strip == units.strips - 1 ? to.height - row0 - Tile::kRows : 0;
  const int plane = to.height * to.width;
  float* const base =
      to.to + (int64_t(image0) * to.channels + channel0) * plane + row0 * to.width + column;
  const float* const from = sums + (has ? lane : 0);
  bool row_there[Tile::kRows];
#pragma unroll
  for (int m = 0; m < Tile::kRows; ++m) row_there[m] = uint32_t(row0 + m) < uint32_t(to.height);
#pragma unroll 4
  for (int i = warp; i < Tile::kImages * Tile::kN; i += Tile::kMultipliers / 32) {
    const int image = i / Tile::kN, channel = i % Tile::kN;
    const bool there = stores && image0 + image < to.images && channel0 + channel < to.channels;
    float* const at_plane = base + (image * to.channels + channel) * plane;
#pragma unroll
    for (int m = 0; m < Tile::kRows; ++m) {
      const float sum =
          from[image * Tile::kImagePitch + channel * Tile::kChannelPitch + m * Tile::kTileColumns];
      if (there && row_there[m]) at_plane[m * to.width] = has ? sum : 0.f;
    }
    for (int m = 0; m < below; ++m)
      if (there) at_plane[(Tile::kRows + m) * to.width] = 0.f;
  }
}

#endif

// blockIdx.x takes units, y is one of 64 channels. `weights` lie as conv2d_pool_relu_wgmma_windows.cu writes them.
__global__ void __launch_bounds__(WindowTile::kThreads, 1)
    wgmma_windows_kernel(const __grid_constant__ PooledPatches images, const float* weights,
                         const __grid_constant__ BlockUnits units,
                         const __grid_constant__ PlaneGradients to) {
#if DUET_HAS_WGMMA
  using Tile = WindowTile;
  constexpr int kStages = Tile::kStages;
  extern __shared__ char dynamic[];
  char* const stages = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto* const sums = reinterpret_cast<float*>(stages + kStages * Tile::kStageBytes);
  auto& barriers =
      *reinterpret_cast<WindowBarriers*>(stages + kStages * Tile::kStageBytes + Tile::kResultBytes);
  // Of which the compiler is to know that a warp's threads agree.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int warp = __shfl_sync(~0u, threadIdx.x / 32 % 4, 0);
  const int tid = threadIdx.x, lane = tid % 32, channel0 = blockIdx.y * Tile::kN;
  if (tid == 0) {
    for (int i = 0; i < kStages; ++i) {
      barriers.full[i].init(128 + 1);  // copying threads, and the weights
      barriers.empty[i].init(Tile::kUnits);
    }
  }
  __syncthreads();
  RingPlace at;
  if (group == Tile::kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    wait_for_primary();
    const float* const from =
        weights + size_t(blockIdx.y) * images.steps * (Tile::kWeightBytes / 4);
    const int windows = images.height * images.width;
    units.for_tiles(blockIdx.x, [&](int first, int count) {
      const BlockUnits::Place begin = units.place(first), end = units.place(first + count - 1);
      const int boxes = count + end.run - begin.run + 1;
      // Lanes are eight boxes of four images and of four more; a warp copies two filters, and one of the first two codes.
      constexpr int kPieces = (Tile::kMostBoxes + 7) / 8, kOfWarp = 2, kOfPiece = 4;
      const float* of_lane[kPieces];  // the upper window of the first filter
      const uint32_t* codes_of_lane[kPieces];
      uint32_t inside = 0;  // of a piece, the halves' windows
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const BlockUnits::Place box = units.box(begin, piece * 8 + lane / 4);
        const int row = box.strip + images.row0, column = box.pair + images.column0;
        const int n = box.group * Tile::kImages + lane % 4, window = row * images.width + column;
        of_lane[piece] =
            images.dy + (int64_t(n) * images.filters + warp * kOfWarp) * windows + window;
        codes_of_lane[piece] =
            images.codes + int64_t(n + warp % 2 * 4) * images.steps * windows + window;
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (uint32_t(column) < uint32_t(images.width) && n + half * 4 < images.images &&
                uint32_t(row + i) < uint32_t(images.height))
              inside |= 1u << (piece * kOfPiece + half * 2 + i);
      }
      const int64_t half_images = int64_t{4} * images.filters * windows;
      for (int step = 0; step < images.steps; ++step) {
        if (at.round > 0) barriers.empty[at.slot].wait(at.round - 1);
        char* const stage = stages + at.slot * Tile::kStageBytes;
        if (tid == Tile::kMultipliers) {
          barriers.full[at.slot].expect(Tile::kWeightBytes);
          bulk_copy(reinterpret_cast<float*>(stage), from + step * (Tile::kWeightBytes / 4),
                    Tile::kWeightBytes, barriers.full[at.slot]);
        }
        const auto to = uint32_t(__cvta_generic_to_shared(stage + Tile::kWeightBytes));
#pragma unroll
        for (int piece = 0; piece < kPieces; ++piece) {
          const int box = piece * 8 + lane / 4;
          if (box >= boxes) continue;
          const uint32_t to_box = to + (box * Tile::kBox + lane % 4) * 4;
          const uint32_t to_codes =
              to + (Tile::kMostBoxes * Tile::kBox + box * Tile::kCodes + lane % 4) * 4;
          const float* addresses[kOfPiece * kOfWarp];
#pragma unroll
          for (int i = 0; i < kOfPiece * kOfWarp; ++i)
            addresses[i] = of_lane[piece] + (step * Tile::kDepth + i / kOfPiece) * windows +
                           i / 2 % 2 * half_images + i % 2 * images.width;
          settle_addresses(addresses);
#pragma unroll
          for (int i = 0; i < kOfPiece * kOfWarp; ++i) {
            const int of_warp = warp * kOfWarp + i / kOfPiece;
            copy_word(
                to_box + (i % 2 * Tile::kWindow + of_warp * Tile::kImages + i / 2 % 2 * 4) * 4,
                addresses[i],
                step * Tile::kDepth + of_warp < images.filters &&
                    (inside >> (piece * kOfPiece + i % kOfPiece) & 1));
          }
          if (warp < 2) {
            const uint32_t* codes[2];
#pragma unroll
            for (int row = 0; row < 2; ++row)
              codes[row] = codes_of_lane[piece] + step * windows + row * images.width;
            settle_addresses(codes);
#pragma unroll
            for (int row = 0; row < 2; ++row)
              copy_word(to_codes + (row * Tile::kImages + warp * 4) * 4, codes[row],
                        inside >> (piece * kOfPiece + warp * 2 + row) & 1);
          }
        }
        arrive_after_copies(barriers.full[at.slot]);
        at.next(kStages);
      }
    });
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
  float d[Tile::kRows][Tile::kN / 2];
  units.for_tiles(blockIdx.x, [&](int first, int count) {
    const int mine = group * 4, here = min(4, count - mine), unit = mine + warp;
    if (here > 0) {
      const BlockUnits::Place begin = units.place(first), from = units.place(first + mine),
                              end = units.place(first + mine + here - 1);
      const int own = mine + min(warp, here - 1);
      const int box = own + units.place(first + own).run - begin.run;
      const auto beyond = [&](int row) {
        return __shfl_sync(~0u,
                           from.strip == end.strip &&
                               uint32_t(from.strip + images.row0 + row) >= uint32_t(images.height),
                           0);
      };
      if (beyond(0))
        multiply_windows<false, true>(stages, barriers, at, images.steps, box, d);
      else if (beyond(1))
        multiply_windows<true, false>(stages, barriers, at, images.steps, box, d);
      else
        multiply_windows<true, true>(stages, barriers, at, images.steps, box, d);
    } else {
      for (int step = 0; step < images.steps; ++step, at.next(kStages)) {
        barriers.full[at.slot].wait(at.round);
        if (lane == 0) barriers.empty[at.slot].arrive();
      }
    }
    const auto wait_multipliers = [] {
      asm volatile("bar.sync 1, %0;" ::"n"(Tile::kMultipliers) : "memory");
    };
    wait_multipliers();  // until what was there is stored
    if (here > 0) {
      float* const of_unit = sums + lane / 4 * Tile::kImagePitch + unit * Tile::kColumns;
#pragma unroll
      for (int m = 0; m < Tile::kRows; ++m)
#pragma unroll
        for (int j = 0; j < Tile::kN / 8; ++j)
#pragma unroll
          for (int e = 0; e < 2; ++e)
            *reinterpret_cast<float2*>(of_unit + (8 * j + lane % 4 * 2 + e) * Tile::kChannelPitch +
                                       m * Tile::kTileColumns) = {d[m][4 * j + e],
                                                                  d[m][4 * j + 2 + e]};
    }
    wait_multipliers();
    store_planes(sums, to, units, first, count, channel0);
  });
#else
  __trap();
#endif
}

inline void launch_wgmma_windows(const PooledPatches& images, const float* weights,
                                 const BlockUnits& units, const PlaneGradients& to,
                                 cudaStream_t stream) {
  using Tile = WindowTile;
  constexpr int kBytes =
      1024 + Tile::kStages * Tile::kStageBytes + Tile::kResultBytes + int(sizeof(WindowBarriers));
  static_assert(kBytes <= 227 * 1024);
  DUET_CUDA(cudaFuncSetAttribute(wgmma_windows_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 kBytes));
  launch({.gridDim = dim3(units.blocks, ceil_div(to.channels, Tile::kN)),
          .blockDim = Tile::kThreads,
          .dynamicSmemBytes = kBytes,
          .stream = stream},
         {overlaps_primary()}, wgmma_windows_kernel, images, weights, units, to);
}

}  // namespace duet
