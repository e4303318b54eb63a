// Forward of a 3x3 convolution of stride 1 and its pooling by Hopper's wgmma, where the weights of 128 filters fit in shared
// memory and stay there: channels of 128 bytes at most.
//
// Eight images lie side by side, as in kernels/wgmma_filter.cuh: a pixel in shared memory is eight images x 128 bytes of channels,
// positions of the product run over images first, and a tap is the same block some pixels further on. The four sums of
// a window are then a thread's own, and it pools them in registers.
// Mapping: block = 128 filters x a run of rows of windows, of eight images. Each of two warpgroups multiplies 64 filters by two
// rows of kColumns positions; the four rows of x that these meet come through a ring, two for each new row of windows.
// One thread of one more warp starts copies.
// Traffic: the weights once a block, x once for every 128 filters and two rows more for each run; products of gathered operands
// (kernels/wgmma_product.cuh) read x nine times, and the weights once a tile of 128 positions.
#pragma once

#include "kernels/wgmma_filter.cuh"
#include "layers/conv2d/halo_convolution.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {

template <int columns>
struct WindowTile {
  static constexpr int kColumns = columns, kImages = ImageBlocks::kImages;
  static constexpr int kN = kColumns * kImages, kWindows = kColumns / 2;
  static constexpr int kTaps = 3, kPanels = 2, kRows = kPanels * kPanel;
  static constexpr int kMultipliers = 256, kThreads = kMultipliers + 32;
  static constexpr int kPixelBytes = kImages * kRowBytes;
  static constexpr int kRowOfX = (kColumns + kTaps - 1) * kPixelBytes;
  static constexpr int kWeightBytes = kTaps * kTaps * kRows * kRowBytes;
  static constexpr int kMostSlots = 6;
  /// Results of a warpgroup: [image][filter][window] or [image][window][filter], and a byte of argmax each.
  static constexpr int kResults = kImages * kPanel * kWindows;
  static constexpr int kImagePitch =
      kPanel * kWindows + 8;  // so that four images lie in other banks
  template <class T>
  static constexpr int kResultBytes = kImages* kImagePitch*(int(sizeof(T)) + 1);
  template <class T>
  static constexpr int kSlots = std::min(
      kMostSlots, (226 * 1024 - 2048 - kWeightBytes - kPanels * kResultBytes<T>) / kRowOfX);
  /// Of shared memory, to begin at a multiple of 1024.
  template <class T>
  static constexpr int kBytes = 2048 + kWeightBytes + kSlots<T>* kRowOfX + kPanels* kResultBytes<T>;
};

struct WindowBarriers {
  CopyBarrier weights[9], x_full[6], x_empty[6];
};

/// Rows of windows of all images, of eight at a time and so many columns; a block has `per_block` of them.
struct WindowRows {
  int images, filters, pool_h, pool_w, rows, per_block;
  FastDivisor by_height, by_segments;
  WindowRows(int images_, int filters_, int pool_h_, int pool_w_, int windows, int blocks)
      : images(images_),
        filters(filters_),
        pool_h(pool_h_),
        pool_w(pool_w_),
        rows(ceil_div(images, ImageBlocks::kImages) * ceil_div(pool_w, windows) * pool_h),
        per_block(ceil_div(rows, blocks)),
        by_height(pool_h),
        by_segments(ceil_div(pool_w, windows)) {}
  int blocks() const { return ceil_div(rows, per_block); }

  /// Calls visit(image group, segment, first row, rows) for the parts of a block, each of rows below each other.
  template <class Visit>
  __device__ __forceinline__ void for_strips(int block, Visit visit) const {
    const int last = min(rows, (block + 1) * per_block);
    for (int at = block * per_block; at < last;) {
      int strip, row, group, segment;
      by_height.divmod(at, strip, row);
      by_segments.divmod(strip, group, segment);
      const int count = min(pool_h - row, last - at);
      visit(group, segment, row, count);
      at += count;
    }
  }
};

// blockIdx.x is a run of rows of windows, y one of 128 filters.
template <class Tile, class T, Layout kLayout>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    wgmma_windows_kernel(const __grid_constant__ WeightByRow<T> weights,
                         const __grid_constant__ PixelRows<T> x,
                         const __grid_constant__ WindowRows rows, const float* __restrict__ bias,
                         T* __restrict__ y, uint32_t* __restrict__ argmax) {
#if DUET_HAS_WGMMA
  constexpr int kTaps = Tile::kTaps, kSlots = Tile::template kSlots<T>, kWindows = Tile::kWindows;
  constexpr int kImages = Tile::kImages;
  static_assert(kSlots >= kTaps + 1);
  extern __shared__ char dynamic[];
  char* const aligned = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto& barriers = *reinterpret_cast<WindowBarriers*>(aligned);
  static_assert(sizeof(WindowBarriers) <= 1024);
  char* const resident = aligned + 1024;
  char* const ring = resident + Tile::kWeightBytes;
  char* const results = ring + kSlots * Tile::kRowOfX;
  // Of which the compiler is to know that a warp's threads agree.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int tid = threadIdx.x;
  if (tid == 0) {
    for (CopyBarrier& barrier : barriers.weights) barrier.init();
    for (int i = 0; i < kSlots; ++i) {
      barriers.x_full[i].init();
      barriers.x_empty[i].init(Tile::kPanels);
    }
  }
  __syncthreads();
  if (group == Tile::kPanels) {
    if (tid != Tile::kMultipliers) return;
    wait_for_primary();
    constexpr int kTapBytes = Tile::kRows * kRowBytes;
    const auto copy_weights = [&](int tap) {
      barriers.weights[tap].expect(kTapBytes);
      weights.template copy<Tile::kRows>(weights.template start<Tile::kRows>(blockIdx.y), tap,
                                         resident + tap * kTapBytes, barriers.weights[tap]);
    };
    RingPlace at;
    int tap = 0;
    rows.for_strips(blockIdx.x, [&](int images, int segment, int row, int count) {
      for (int i = 0; i < 2 * count + kTaps - 1; ++i) {
        if (at.round > 0) barriers.x_empty[at.slot].wait(at.round - 1);
        barriers.x_full[at.slot].expect(Tile::kRowOfX);
        x.copy(images, 0, 2 * row + i, segment * Tile::kColumns, Tile::kRowOfX,
               ring + at.slot * Tile::kRowOfX, barriers.x_full[at.slot]);
        at.next(kSlots);
        // The first products need two rows of x, and the weights in their order.
        if (i >= 1)
          for (const int next = min(tap + kTaps, kTaps * kTaps); tap < next; ++tap)
            copy_weights(tap);
      }
    });
  } else {
    const int lane = tid % 32, row_in_panel = tid % 128 / 32 * 16 + lane / 4;
    const int k0 = blockIdx.y * Tile::kRows + group * kPanel;
    const int count = min(kPanel, rows.filters - k0);
    const char* const mine = resident + group * kPanel * kRowBytes;
    char* const my_results = results + group * Tile::template kResultBytes<T>;
    T* const values = reinterpret_cast<T*>(my_results);
    auto* const codes =
        reinterpret_cast<uint8_t*>(my_results + kImages * Tile::kImagePitch * sizeof(T));
    float biases[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int filter = row_in_panel + 8 * i;
      biases[i] = bias != nullptr && filter < count ? __ldg(bias + k0 + filter) : 0.f;
    }
    const auto wait_group = [&] {
      if (group == 0)
        asm volatile("bar.sync 1, 128;" ::: "memory");
      else
        asm volatile("bar.sync 2, 128;" ::: "memory");
    };
    RingPlace at, kept;
    int known = 0;  // taps whose weights have come
    float d[2][Tile::kN / 2];
    rows.for_strips(blockIdx.x, [&](int images, int segment, int first_row, int row_count) {
      // Rows of x of the row of windows: `first` of them were waited for, and are kept.
      RingPlace begin = at;
      int come = 0;
      const auto await_rows = [&](int up_to) {
        for (; come < up_to; ++come) {
          barriers.x_full[at.slot].wait(at.round);
          at.next(kSlots);
        }
      };
      const auto give_back = [&](int how_many) {
        for (int i = 0; i < how_many; ++i) {
          if (tid % 128 == 0) barriers.x_empty[kept.slot].arrive();
          kept.next(kSlots);
        }
      };
      for (int r0 = 0; r0 < row_count; ++r0) {
        wgmma_begin();
        RingPlace upper = begin;
#pragma unroll 1
        for (int r = 0; r < kTaps; ++r) {
          await_rows(2 * r0 + r + 2);
          RingPlace lower = upper;
          lower.next(kSlots);
          const char* const of_upper = ring + upper.slot * Tile::kRowOfX;
          const char* const of_lower = ring + lower.slot * Tile::kRowOfX;
#pragma unroll
          for (int s = 0; s < kTaps; ++s) {
            const int tap = r * kTaps + s;
            if (known == tap) barriers.weights[known++].wait(0);
            const char* const of_tap = mine + tap * Tile::kRows * kRowBytes;
            const int pixel = s * Tile::kPixelBytes;
            // region tap
#pragma unroll
            for (int k = 0; k < kRowBytes; k += 32) {
              Wgmma<T, Tile::kN, false, false>::multiply(d[0], matrix_descriptor(of_tap + k, 0),
                                                         matrix_descriptor(of_upper + pixel + k, 0),
                                                         tap > 0 || k > 0);
              Wgmma<T, Tile::kN, false, false>::multiply(d[1], matrix_descriptor(of_tap + k, 0),
                                                         matrix_descriptor(of_lower + pixel + k, 0),
                                                         tap > 0 || k > 0);
            }
            // end tap
          }
          upper = lower;
        }
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_settle(d[0]);
        wgmma_settle(d[1]);
        begin.next(kSlots), begin.next(kSlots);
        give_back(r0 + 1 < row_count ? 2 : kTaps + 1);
        // d[a][4j + 2i + e]: row a, column j, filter row_in_panel + 8i, image 2 (lane % 4) + e.
#pragma unroll
        for (int window = 0; window < kWindows; ++window) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
              const int left = 8 * window + 2 * i + e, right = left + 4;
              const float b = biases[i];
              const PooledValue pooled =
                  pool_window(d[0][left] + b, d[0][right] + b, d[1][left] + b, d[1][right] + b);
              const int filter = row_in_panel + 8 * i, image = lane % 4 * 2 + e;
              const int by_filter = filter * kWindows + window,
                        by_window = window * kPanel + filter;
              values[image * Tile::kImagePitch +
                     (kLayout == Layout::kNCHW ? by_filter : by_window)] = T(pooled.value);
              codes[image * Tile::kImagePitch + by_window] = uint8_t(pooled.code);
            }
          }
        }
        wait_group();
        const int window0 = segment * kWindows, window_row = (first_row + r0) * rows.pool_w;
        const int windows = min(kWindows, rows.pool_w - window0);
        const int image0 = images * kImages, image_count = min(kImages, rows.images - image0);
        const int all = rows.pool_h * rows.pool_w, member = tid % 128;
        if constexpr (kLayout == Layout::kNCHW) {
          for (int i = member; i < Tile::kResults; i += 128) {
            const int window = i % kWindows, filter = i / kWindows % kPanel;
            const int image = i / (kWindows * kPanel);
            if (window < windows && filter < count && image < image_count)
              y[(size_t(image0 + image) * rows.filters + k0 + filter) * all + window_row + window0 +
                window] = values[image * Tile::kImagePitch + filter * kWindows + window];
          }
        } else {
          constexpr int kVec = kWidest<T>;
          const bool whole = rows.filters % kVec == 0;
          for (int i = member; i < Tile::kResults / kVec; i += 128) {
            const int filter = i % (kPanel / kVec) * kVec, rest = i / (kPanel / kVec);
            const int window = rest % kWindows, image = rest / kWindows;
            if (window >= windows || filter >= count || image >= image_count) continue;
            T* const to =
                y + (size_t(image0 + image) * all + window_row + window0 + window) * rows.filters +
                k0 + filter;
            const T* const from = values + image * Tile::kImagePitch + window * kPanel + filter;
            if (whole) {
              *reinterpret_cast<float4*>(to) = *reinterpret_cast<const float4*>(from);
            } else {
#pragma unroll
              for (int e = 0; e < kVec; ++e)
                if (filter + e < count) to[e] = from[e];
            }
          }
        }
        constexpr int kGroups = kPanel / 8;
        for (int i = member; i < kImages * kGroups * kWindows; i += 128) {
          const int window = i % kWindows, of_eight = i / kWindows % kGroups;
          const int image = i / (kWindows * kGroups);
          if (window >= windows || of_eight * 8 >= count || image >= image_count) continue;
          const uint2 bytes = *reinterpret_cast<const uint2*>(codes + image * Tile::kImagePitch +
                                                              window * kPanel + of_eight * 8);
          // Bytes 0x0d0c0b0a -> 0xdcba.
          const auto nibbles = [](uint32_t word) {
            word = (word | word >> 4) & 0x00ff00ffu;
            return (word | word >> 8) & 0xffffu;
          };
          argmax[(size_t(image0 + image) * argmax_groups(rows.filters) + k0 / 8 + of_eight) * all +
                 window_row + window0 + window] = nibbles(bytes.x) | nibbles(bytes.y) << 16;
        }
        wait_group();
      }
    });
  }
#else
  __trap();
#endif
}

template <class Tile, Layout kLayout, class T>
void launch_wgmma_windows(const WeightByRow<T>& weights, const PixelRows<T>& x,
                          const WindowRows& rows, const float* bias, T* y, uint32_t* argmax,
                          cudaStream_t stream) {
  const auto kernel = wgmma_windows_kernel<Tile, T, kLayout>;
  constexpr int kBytes = Tile::template kBytes<T>;
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  launch({.gridDim = dim3(rows.blocks(), ceil_div(rows.filters, Tile::kRows)),
          .blockDim = Tile::kThreads,
          .dynamicSmemBytes = kBytes,
          .stream = stream},
         {overlaps_primary()}, kernel, weights, x, rows, bias, y, argmax);
}

/// Forward in bf16. REQUIRES: window_convolution_preferred().
class WindowConvolution : StagedConvolution<bfloat16> {
 public:
  explicit WindowConvolution(const Conv2dProblem& problem) : StagedConvolution(problem) {}

  size_t workspace_bytes() const { return staged_bytes(Pass::kForward); }
  std::string text() const {
    std::string text;
    with_tile(problem_, [&]<class Tile>(Tile) {
      text = "tile 128x" + std::to_string(2 * Tile::kN) + " of windows, weights kept, wgmma bf16";
    });
    return text;
  }
  void forward(const Run& run, const Tensor& x, const Tensor& w, const float* bias, const Tensor& y,
               uint32_t* argmax) const {
    const auto [image, weights] = stage_x_and_weights(run, x, w);
    const Conv2dProblem& d = padded_;
    with_tile(d, [&, image = image, weights = weights]<class Tile>(Tile) {
      const int tiles = ceil_div(problem_.k, Tile::kRows);
      const WindowRows rows(d.n, problem_.k, d.p / 2, d.q / 2, Tile::kWindows,
                            std::max(1, likely_multiprocessor_count() / tiles));
      const PixelRows<bfloat16> pixels(image, d.n, d.h, d.w, d.c, d.pad_h, d.pad_w,
                                       Tile::kColumns + Tile::kTaps - 1);
      const WeightByRow<bfloat16> filters(weights, problem_.k, geometry_.taps, d.c, Tile::kRows);
      by_layout([&]<Layout kLayout>(std::integral_constant<Layout, kLayout>) {
        launch_wgmma_windows<Tile, kLayout>(filters, pixels, rows, bias, y.data<bfloat16>(), argmax,
                                            run.stream());
      });
    });
  }

  /// Columns of z that are computed, of which some may lie beyond the last.
  static int columns(const Conv2dProblem& d) {
    return std::min(round_up(d.q / 2 * 2, 10), round_up(d.q / 2 * 2, 12));
  }

 private:
  template <class Visit>
  static void with_tile(const Conv2dProblem& d, Visit visit) {
    columns(d) % 10 == 0 ? visit(WindowTile<10>{}) : visit(WindowTile<12>{});
  }
};

/// Whether WindowConvolution can do it, and little of what it computes is not wanted.
inline bool window_convolution_preferred(const Conv2dProblem& d) {
  if (halo_convolution_unsupported(d, Pass::kBackwardFilter)) return false;  // not 3x3 or stride 1
  const double wanted = double(d.q / 2 * 2) * d.k * d.n;
  const double all = double(WindowConvolution::columns(d)) * round_up(d.k, 128) * round_up(d.n, 8);
  return d.math == Math::kBF16 && d.c <= kStepDepth<bfloat16> && wanted >= 0.75 * all;
}

}  // namespace duet
