// dw of a 3x3 convolution of stride 1 in tf32 by Hopper's wgmma, from x and dy as they lie: dw[filter][tap][channel] = sum over
// images and positions of dy(position)[filter] * x(position + tap)[channel].
//
// The instruction wants the terms of a sum side by side in shared memory, and here they are one pixel of eight images, which
// copies of four bytes lay there: a pixel is a block of eight images x 64 channels, and a tap is the same blocks some pixels
// further on. dy is the first operand, from registers: behind a pooling a thread makes the four positions of a window there of
// one value and its place, and neither x nor dz is staged in memory.
// Mapping: block = 64 filters x 64 channels x nine taps of a part of dy's rows (a split of the sum). Three warpgroups multiply,
// each by the taps of one row of the kernel, three times 64 x 64 sums in registers. Four more warps copy rows of x and of dy,
// each to a ring of its own: a row of x serves three rows of dy.
// Traffic: x is read once for every 64 filters, dy once for every 64 channels.
// x is cut off to tf32 by the instruction, dy is rounded.
#pragma once

#include "core/tensor.h"
#include "kernels/tf32.cuh"
#include "kernels/wgmma_filter.cuh"

namespace duet {

/// Each copies 16 channels of a block.
inline constexpr int kCopyingWarps = ImageBlocks::kChannels / 16;

/// Four bytes, or zeros, and then from anywhere.
__device__ __forceinline__ void copy_word(uint32_t shared, const void* global, bool there) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(global),
               "r"(there ? 4 : 0)
               : "memory");
}
/// Computes them all before any copy begins: a copy holds the registers of its address for some 200 cycles, and in the same few
/// registers one after the other would wait for that.
template <class T, int count>
__device__ __forceinline__ void settle_addresses(const T* (&at)[count]) {
#pragma unroll
  for (const T*& address : at) asm volatile("" : "+l"(address));
}
/// Arrives when what this thread has begun to copy is there.
__device__ __forceinline__ void arrive_after_copies(const CopyBarrier& barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.address())
               : "memory");
}

/// Images in either layout.
template <Layout kLayout>
struct PlainRows {
  const float* from;
  int images, channels, height, width, pad_h = 0, pad_w = 0;

  /// By a warp its part of `columns` pixels of 64 channels of a row, zeros beyond the image; row and column count from the first of the
  /// padding. Channels beyond the last are left as they were.
  __device__ __forceinline__ void copy(int group, int block, int row, int column, int columns,
                                       float* shared, int warp, int lane) const {
    const int h = row - pad_h, channel0 = block * ImageBlocks::kChannels + warp * 16;
    const auto to_warp = uint32_t(__cvta_generic_to_shared(shared + warp * 128));
    // Of an image, in bytes.
    const auto offset_of = [](int image) { return image / 4 * 128 + image % 4 * 4; };
    if constexpr (kLayout == Layout::kNCHW) {
      // Lanes are as many columns as make a run of them, of some images.
      const int lanes = columns > 8 ? 16 : 8, images_at_once = 32 / lanes;
      const int plane = height * width, count = channels - channel0;
#pragma unroll 1
      for (int image = lane / lanes; image < ImageBlocks::kImages; image += images_at_once) {
        const int n = group * ImageBlocks::kImages + image;
        const bool row_there = n < images && uint32_t(h) < uint32_t(height);
#pragma unroll 1
        for (int w = lane % lanes; w < columns; w += lanes) {
          const int q = column + w - pad_w;
          const bool there = row_there && uint32_t(q) < uint32_t(width);
          const float* const first =
              from + (int64_t(n) * channels + channel0) * plane + h * width + q;
          const uint32_t to = to_warp + offset_of(image) + w * (ImageBlocks::kPitch * 4);
          const auto offset = [](int j) { return (j / 8 * 64 + j % 8 * 4) * 4; };
          if (count >= 16) {
            const float* at[16];
#pragma unroll
            for (int j = 0; j < 16; ++j) at[j] = first + int64_t(j) * plane;
            settle_addresses(at);
#pragma unroll
            for (int j = 0; j < 16; ++j) copy_word(to + offset(j), at[j], there);
          } else {
#pragma unroll 1
            for (int j = 0; j < count; ++j) copy_word(to + offset(j), first + j * plane, there);
          }
        }
      }
    } else {
      // Lanes are eight channels of four images.
#pragma unroll 1
      for (int image = lane % 4; image < ImageBlocks::kImages; image += 4) {
        const int n = group * ImageBlocks::kImages + image;
        const bool row_there = n < images && uint32_t(h) < uint32_t(height);
#pragma unroll 1
        for (int octet = 0; octet < 2; ++octet) {
          const int channel = channel0 + octet * 8 + lane / 4;
          if (channel >= channels) continue;
          const float* const first =
              from + ((int64_t(n) * height + h) * width + column - pad_w) * channels + channel;
          const uint32_t to = to_warp + offset_of(image) + octet * 256 + lane / 4 * 16;
#pragma unroll 4
          for (int w = 0; w < columns; ++w) {
            const bool there = row_there && uint32_t(column + w - pad_w) < uint32_t(width);
            copy_word(to + w * (ImageBlocks::kPitch * 4), first + int64_t(w) * channels, there);
          }
        }
      }
    }
  }
};

/// Where in 2x2 windows the maxima were (packed_argmax.cuh): words [n][octet of filters][window] of codes of four bits.
struct WindowCodes {
  const uint32_t* from;
  int images, octets, height, width;

  __device__ __forceinline__ void copy(int group, int block, int row, int column, int columns,
                                       uint32_t* shared, int warp, int lane) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int in_group = half * 4 + lane % 4, n = group * ImageBlocks::kImages + in_group;
      for (int w = lane / 4; w < columns; w += 8) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int in_block = warp * 2 + i,
                    octet = block * (ImageBlocks::kChannels / 8) + in_block;
          const bool there = n < images && octet < octets && row < height && column + w < width;
          copy_word(uint32_t(__cvta_generic_to_shared(shared + w * ImageBlocks::kCodePitch +
                                                      in_block * ImageBlocks::kImages + in_group)),
                    from + (there ? (size_t(n) * octets + octet) * height * width + row * width +
                                        column + w
                                  : 0),
                    there);
        }
      }
    }
  }
};

struct FilterRowsTile {
  static constexpr int kTaps = 3, kPixelBytes = ImageBlocks::kPitch * int(sizeof(float));
  static constexpr int kMultipliers = kTaps * 128, kThreads = kMultipliers + kCopyingWarps * 32;
};

#if DUET_HAS_WGMMA

/// The first operand of one position or of the four of a window, and the sums of dy.
template <bool kPooled>
struct FilterOperand {
  static constexpr int kPositions = kPooled ? 4 : 1;
  uint32_t of[kPositions][4];

  /// `dy` and `codes` are of the lane: filters lane / 4 and 8 more, images lane % 4 and 4 more.
  __device__ __forceinline__ void load(const float* dy, const uint32_t* codes, int code_shift,
                                       float (&sums)[2]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float value = dy[i % 2 * 64 + i / 2 * 32];
      const uint32_t rounded = __float_as_uint(tf32_rounded(value));
      if constexpr (kPooled) {
        const uint32_t code = codes[i % 2 * ImageBlocks::kImages + i / 2 * 4] >> code_shift & 15;
        sums[i % 2] += code < 4 ? value : 0.f;
#pragma unroll
        for (uint32_t position = 0; position < 4; ++position)
          of[position][i] = code == position ? rounded : 0;
      } else {
        sums[i % 2] += value;
        of[0][i] = rounded;
      }
    }
#pragma unroll
    for (auto& position : of)
#pragma unroll
      for (uint32_t& value : position) asm volatile("" : "+r"(value)::"memory");
  }
};

/// Adds up a split's products of the taps of a row of the kernel, and dy.
template <bool kPooled>
__device__ __forceinline__ void multiply_filter_rows(const FilterPlan<float>& plan, int split,
                                                     int group, FilterBarriers& barriers,
                                                     const char* x_ring, const char* dy_ring,
                                                     float (&d)[3][32], float (&sums)[2]) {
  using Tile = FilterRowsTile;
  constexpr int kTaps = Tile::kTaps, kRows = kPooled ? 2 : 1;
  constexpr uint64_t kNextPixel = Tile::kPixelBytes >> 4;
  const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32;
  const int codes_at = plan.columns / kRows * ImageBlocks::kPitch;
  RingPlace at_x, at_dy;
  const auto give_back = [&](CopyBarrier& barrier) {
    if (lane == 0) barrier.arrive();
  };
  const auto skip_row = [&] {
    barriers.x_full[at_x.slot].wait(at_x.round);
    give_back(barriers.x_empty[at_x.slot]);
    at_x.next(plan.x_slots);
  };
  for_strips(plan, split, [&](int, int, int, int count) {
    for (int i = 0; i < group; ++i) skip_row();
#pragma unroll 1
    for (int i = 0; i < count; i += kRows) {
      uint64_t of_x[kRows];
      int slots[kRows];
#pragma unroll
      for (int m = 0; m < kRows; ++m) {
        barriers.x_full[at_x.slot].wait(at_x.round);
        slots[m] = at_x.slot;
        of_x[m] = core_descriptor(x_ring + at_x.slot * plan.x_bytes());
        at_x.next(plan.x_slots);
      }
      barriers.dy_full[at_dy.slot].wait(at_dy.round);
      // What other threads copied, for the instruction.
      fence_async_proxy();
      const auto* const of_dy =
          reinterpret_cast<const float*>(dy_ring + at_dy.slot * plan.dy_bytes());
      const float* values = of_dy + warp * 128 + lane;
      const auto* codes = reinterpret_cast<const uint32_t*>(of_dy + codes_at) +
                          warp * 2 * ImageBlocks::kImages + lane % 4;
#pragma unroll 1
      for (int column = 0; column < plan.columns; column += kRows) {
        FilterOperand<kPooled> operand;
        operand.load(values, codes, lane / 4 * 4, sums);
        wgmma_begin();
#pragma unroll
        for (int position = 0; position < kRows * kRows; ++position)
#pragma unroll
          for (int s = 0; s < kTaps; ++s)
            WgmmaRows<64>::multiply(d[s], operand.of[position],
                                    of_x[position / kRows] + (position % kRows + s) * kNextPixel,
                                    true);
        wgmma_commit();
        values += ImageBlocks::kPitch, codes += ImageBlocks::kCodePitch;
#pragma unroll
        for (uint64_t& row : of_x) row += kRows * kNextPixel;
        wgmma_wait<0>();
      }
#pragma unroll
      for (const int slot : slots) give_back(barriers.x_empty[slot]);
      give_back(barriers.dy_empty[at_dy.slot]);
      at_dy.next(plan.dy_slots);
    }
    for (int i = group; i < kTaps - 1; ++i) skip_row();
  });
#pragma unroll
  for (auto& tap : d) wgmma_settle(tap);
}

#endif

// blockIdx.x is a tile of filters and channels, y a split. Split s of dw [filter][tap][channel], with whole
// tiles of channels, goes to parts + s * stride, and with `sums` that of dy's sums behind it. Pooled, dy is that of windows.
template <Layout kLayout, bool kPooled>
__global__ void __launch_bounds__(FilterRowsTile::kThreads, 1)
    wgmma_filter_rows_kernel(const __grid_constant__ PlainRows<kLayout> x,
                             const __grid_constant__ PlainRows<kLayout> dy,
                             const __grid_constant__ WindowCodes codes,
                             const __grid_constant__ FilterPlan<float> plan, int filters, bool sums,
                             float* __restrict__ parts, size_t stride) {
#if DUET_HAS_WGMMA
  using Tile = FilterRowsTile;
  constexpr int kTaps = Tile::kTaps, kRows = kPooled ? 2 : 1;
  extern __shared__ char dynamic[];
  char* const aligned = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto& barriers = *reinterpret_cast<FilterBarriers*>(aligned);
  const int x_bytes = plan.x_bytes(), dy_bytes = plan.dy_bytes();
  char* const x_ring = aligned + FilterPlan<float>::kBeforeRings;
  char* const dy_ring = x_ring + plan.x_slots * x_bytes;
  // Of which the compiler is to know that a warp's threads agree.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int tid = threadIdx.x, lane = tid % 32, split = blockIdx.y;
  const int row_tile = blockIdx.x % plan.row_tiles, column_tile = blockIdx.x / plan.row_tiles;
  if (tid == 0) {
    for (int i = 0; i < FilterBarriers::kSlots; ++i) {
      barriers.x_full[i].init(kCopyingWarps * 32);
      barriers.dy_full[i].init(kCopyingWarps * 32);
      barriers.x_empty[i].init(kTaps * 4);
      barriers.dy_empty[i].init(kTaps * 4);
    }
  }
  __syncthreads();
  if (group == kTaps) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
    const int warp = __shfl_sync(~0u, tid / 32 % 4, 0);
    wait_for_primary();
    RingPlace at_x, at_dy;
    for_strips(plan, split, [&](int images, int column, int row, int count) {
      for (int i = 0; i < count + kTaps - 1; ++i) {
        if (at_x.round > 0) barriers.x_empty[at_x.slot].wait(at_x.round - 1);
        x.copy(images, column_tile, row + i, column, plan.columns + kTaps - 1,
               reinterpret_cast<float*>(x_ring + at_x.slot * x_bytes), warp, lane);
        arrive_after_copies(barriers.x_full[at_x.slot]);
        at_x.next(plan.x_slots);
        const int last = i - (kTaps - 1);  // what rows of dy meet comes before them
        if (last < 0 || last % kRows != kRows - 1) continue;
        if (at_dy.round > 0) barriers.dy_empty[at_dy.slot].wait(at_dy.round - 1);
        auto* const to = reinterpret_cast<float*>(dy_ring + at_dy.slot * dy_bytes);
        const int columns = plan.columns / kRows;
        dy.copy(images, row_tile, (row + last) / kRows, column / kRows, columns, to, warp, lane);
        if constexpr (kPooled)
          codes.copy(images, row_tile, (row + last) / kRows, column / kRows, columns,
                     reinterpret_cast<uint32_t*>(to + columns * ImageBlocks::kPitch), warp, lane);
        arrive_after_copies(barriers.dy_full[at_dy.slot]);
        at_dy.next(plan.dy_slots);
      }
    });
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 152;");
  float d[kTaps][32] = {}, row_sums[2] = {};
  multiply_filter_rows<kPooled>(plan, split, group, barriers, x_ring, dy_ring, d, row_sums);
#pragma unroll
  for (float& sum : row_sums) {
    sum += __shfl_xor_sync(~0u, sum, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
  }
  float* const to = parts + split * stride;
  const int channels = plan.column_tiles * ImageBlocks::kChannels;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const int filter = row_tile * kPanel + tid % 128 / 32 * 16 + lane / 4 + 8 * i;
    if (filter >= filters) continue;
    float* const of_filter = to + (size_t(filter) * kTaps + group) * kTaps * channels +
                             column_tile * ImageBlocks::kChannels + lane % 4 * 2;
#pragma unroll
    for (int s = 0; s < kTaps; ++s)
#pragma unroll
      for (int j = 0; j < 8; ++j)
        *reinterpret_cast<float2*>(of_filter + s * channels + j * 8) = {d[s][4 * j + 2 * i],
                                                                        d[s][4 * j + 2 * i + 1]};
    if (sums && column_tile == 0 && group == 1 && lane % 4 == 0)
      to[size_t(filters) * kTaps * kTaps * channels + filter] = row_sums[i];
  }
#else
  __trap();
#endif
}

/// `codes` of no memory: nothing is pooled.
template <Layout kLayout>
void launch_wgmma_filter_rows(const PlainRows<kLayout>& x, const PlainRows<kLayout>& dy,
                              const WindowCodes& codes, const FilterPlan<float>& plan, int filters,
                              bool sums, float* parts, size_t stride, cudaStream_t stream) {
  const auto launch_by = [&](auto kernel) {
    const size_t bytes = plan.smem_bytes();
    DUET_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    launch({.gridDim = dim3(plan.row_tiles * plan.column_tiles, plan.splits),
            .blockDim = FilterRowsTile::kThreads,
            .dynamicSmemBytes = bytes,
            .stream = stream},
           {overlaps_primary()}, kernel, x, dy, codes, plan, filters, sums, parts, stride);
  };
  codes.from ? launch_by(wgmma_filter_rows_kernel<kLayout, true>)
             : launch_by(wgmma_filter_rows_kernel<kLayout, false>);
}

}  // namespace duet
