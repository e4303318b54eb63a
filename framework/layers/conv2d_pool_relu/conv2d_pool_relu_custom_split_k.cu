// conv2d_pool_relu custom_split_k: implicit GEMM for few images: many small blocks, whose warps share the sum, on tensor
//           cores. Backward is custom_mma's.
// Mapping:  block = 16 filters x 8 (or 4) windows of one image; a warp has every eighth piece of 16 terms for all of
//           them, and the warps' sums meet in shared memory, where a thread pools a window of one filter.
// Traffic:  the weights of 16 filters go to registers, in float32 as they are stored, once a block; the image to shared
//           memory, once a block. In inference the weights are fetched while the kernel before still runs.
// Limits:   bf16; no groups; pooling 2x2 with stride 2, no pool padding; images, with their padding, that fit in
//           shared memory.
// Measured: H200, Nx64x13x13 -> 128, 3x3, nchw: forward 4.1 us at N = 1 (of 8 windows a block 4.7), 5.4 at 4 and 7.6 at 8;
//           custom_wgmma 7.4 at 1 and 7.6 at 8.
#include <algorithm>

#include "device/launch.h"
#include "device/likely_multiprocessors.h"
#include "kernels/integers.cuh"
#include "kernels/mma_tile.cuh"
#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"

namespace duet {
namespace {

constexpr int kWarps = 8, kThreads = kWarps * 32;
constexpr int kFilters = 16, kMostWindows = 8;  // of a block
/// Pieces of 8 columns.
constexpr int tiles_of(int windows) { return windows * 4 / 8; }
constexpr int kAhead = 5;  // pieces of terms whose weights a warp has in registers

/// One problem: terms are numbered as the weights of a filter lie, positions as pixels of the padded image.
struct SplitKGeometry {
  Conv2dProblem d;
  int depth, steps;  // terms, and pieces of 16
  int width, image;  // of the padded image: columns, and all elements
  int channel_stride, pixel_stride;
  int windows, run_windows, runs;  // of an image; a block has one of its runs
  bool whole;                      // an image is copied by 16 bytes
  FastDivisor by_runs, by_windows_w, by_inner, by_s, by_plane, by_w;

  explicit SplitKGeometry(const Conv2dProblem& problem)
      : d(problem),
        depth(d.c * d.r * d.s),
        steps(ceil_div(depth, 16)),
        width(d.w + 2 * d.pad_w),
        image((d.h + 2 * d.pad_h) * width * d.c),
        channel_stride(planes() ? (d.h + 2 * d.pad_h) * width : 1),
        pixel_stride(planes() ? 1 : d.c),
        windows((d.p / 2) * (d.q / 2)),
        run_windows(fewer_windows() ? kMostWindows / 2 : kMostWindows),
        runs(ceil_div(windows, run_windows)),
        whole(d.pad_h == 0 && d.pad_w == 0 && image % kWidest<bfloat16> == 0),
        by_runs(runs),
        by_windows_w(d.q / 2),
        by_inner(planes() ? d.r * d.s : d.c),
        by_s(d.s),
        by_plane(planes() ? d.h * d.w : d.w * d.c),
        by_w(planes() ? d.w : d.c) {}

  bool planes() const { return d.layout == Layout::kNCHW; }
  int blocks() const { return d.n * runs * ceil_div(d.k, kFilters); }
  /// Where blocks are so few that each multiprocessor still has one at most.
  bool fewer_windows() const {
    return d.n * ceil_div(windows, kMostWindows / 2) * ceil_div(d.k, kFilters) <=
           likely_multiprocessor_count();
  }
  size_t offset_bytes() const { return sizeof(int) * 16 * size_t(steps); }
  size_t shared_bytes() const {
    constexpr size_t kSums = sizeof(float) * kWarps * tiles_of(kMostWindows) * kFilters * 8;
    return offset_bytes() + std::max(kSums, sizeof(bfloat16) * round_up(image, 8));
  }
};

/// Of a lane: rows lane/4 and lane/4 + 8 of 16 filters, terms 2 (lane%4) and the next, and those eight further on; as many
/// pieces of terms as a warp has ahead, from `step` on. All are asked for before any is looked at: what is not there is
/// loaded from elsewhere, and zero.
template <bool even>
__device__ __forceinline__ void load_weights(const SplitKGeometry& g, const float* w, int filter0,
                                             int step, uint32_t (&a)[kAhead][4]) {
  const int row = filter0 + threadIdx.x % 32 / 4, term0 = step * 16 + threadIdx.x % 4 * 2;
  const auto filter_of = [&](int i) { return row + i % 2 * 8; };
  const auto term_of = [&](int k, int i) { return term0 + k * kWarps * 16 + i / 2 * 8; };
  float2 pairs[kAhead][4];
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* const from = w + size_t(min(filter_of(i), g.d.k - 1)) * g.depth;
      const int term = term_of(k, i);
      if constexpr (even) {
        pairs[k][i] = __ldg(reinterpret_cast<const float2*>(from + min(term, g.depth - 2)));
      } else {
        pairs[k][i].x = __ldg(from + min(term, g.depth - 1));
        pairs[k][i].y = __ldg(from + min(term + 1, g.depth - 1));
      }
    }
  }
#pragma unroll
  for (int k = 0; k < kAhead; ++k) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const bool inside = filter_of(i) < g.d.k;
      const int term = term_of(k, i);
      const bfloat16 low(inside && term < g.depth ? pairs[k][i].x : 0.f);
      const bfloat16 high(inside && term + 1 < g.depth ? pairs[k][i].y : 0.f);
      a[k][i] = low.bits | uint32_t{high.bits} << 16;
    }
  }
}

/// The image with zeros around it.
__device__ __forceinline__ void load_image(const SplitKGeometry& g, bool planes, const bfloat16* x,
                                           bfloat16* image) {
  if (g.whole) {
    const auto to = uint32_t(__cvta_generic_to_shared(image));
    for (int i = threadIdx.x; i < g.image / kWidest<bfloat16>; i += kThreads)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i * 16),
                   "l"(x + i * kWidest<bfloat16>)
                   : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    return;
  }
  if (g.d.pad_h > 0 || g.d.pad_w > 0) {
    for (int i = threadIdx.x; i < g.image; i += kThreads) image[i] = bfloat16(0.f);
    __syncthreads();
  }
  for (int i = threadIdx.x; i < g.d.c * g.d.h * g.d.w; i += kThreads) {
    int outer, within, middle, inner;  // planes: channel, row, column; else row, column, channel
    g.by_plane.divmod(i, outer, within);
    g.by_w.divmod(within, middle, inner);
    const int channel = planes ? outer : inner, row = planes ? middle : outer,
              column = planes ? inner : middle;
    image[channel * g.channel_stride +
          ((row + g.d.pad_h) * g.width + column + g.d.pad_w) * g.pixel_stride] = x[i];
  }
}

// blockIdx.x is a run of windows of an image, y one of 16 filters. `even`: the terms of a filter are. Columns of the product are those of two rows of windows:
// pieces of eight alternate between the upper and the lower outputs of four windows, so that a window's four sums are two
// neighbours in each of two pieces.
template <int kWindows, bool planes, bool even>
__global__ void __launch_bounds__(kThreads)
    conv2d_pool_relu_split_k_kernel(const __grid_constant__ SplitKGeometry g, bool weights_rest,
                                    const bfloat16* x, const float* w, const float* bias,
                                    bfloat16* y, uint32_t* argmax) {
  constexpr int kTiles = tiles_of(kWindows);
  extern __shared__ __align__(16) char memory[];
  int* const offsets = reinterpret_cast<int*>(memory);  // of a term's pixel from an output's first
  bfloat16* const image = reinterpret_cast<bfloat16*>(memory + sizeof(int) * 16 * g.steps);
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
  const int filter0 = blockIdx.y * kFilters;
  int n, run;
  g.by_runs.divmod(blockIdx.x, n, run);
  const int window0 = run * kWindows;
  if (!weights_rest) wait_for_primary();
  uint32_t weights[kAhead][4];
  load_weights<even>(g, w, filter0, warp, weights);
  for (int term = tid; term < 16 * g.steps; term += kThreads) {
    int outer, inner, r, s;  // planes: channel and tap; else tap and channel
    g.by_inner.divmod(term, outer, inner);
    const int channel = planes ? outer : inner;
    g.by_s.divmod(planes ? inner : outer, r, s);
    offsets[term] = term < g.depth
                        ? channel * g.channel_stride +
                              (r * g.d.dilation_h * g.width + s * g.d.dilation_w) * g.pixel_stride
                        : -1;
  }
  int first[kTiles];  // of an output's pixels, of which a lane has column lane/4
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    const int window = min(window0 + j / 2 * 4 + lane / 8, g.windows - 1);
    int row, column;
    g.by_windows_w.divmod(window, row, column);
    first[j] =
        ((2 * row + j % 2) * g.d.stride_h * g.width + (2 * column + lane / 4 % 2) * g.d.stride_w) *
        g.pixel_stride;
  }
  if (weights_rest) wait_for_primary();
  load_image(g, planes, x + size_t(n) * g.d.c * g.d.h * g.d.w, image);
  __syncthreads();

  float sums[kTiles][4] = {};
  for (int step0 = warp; step0 < g.steps; step0 += kAhead * kWarps) {
    if (step0 != warp) load_weights<even>(g, w, filter0, step0, weights);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int step = step0 + i * kWarps;
      if (step >= g.steps) break;
      const int term = step * 16 + lane % 4 * 2;
      const int2 near = *reinterpret_cast<const int2*>(offsets + term);
      const int2 far = *reinterpret_cast<const int2*>(offsets + term + 8);
#pragma unroll
      for (int j = 0; j < kTiles; ++j) {
        const auto pixel = [&](int offset) {
          return offset < 0 ? 0u : uint32_t{image[first[j] + offset].bits};
        };
        MmaBf16::multiply(sums[j][0], sums[j][1], sums[j][2], sums[j][3], weights[i],
                          pixel(near.x) | pixel(near.y) << 16, pixel(far.x) | pixel(far.y) << 16);
      }
    }
  }
  __syncthreads();  // nobody reads the image any more
  auto& all = *reinterpret_cast<float(*)[kWarps][kTiles][kFilters][8]>(image);
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      *reinterpret_cast<float2*>(&all[warp][j][lane / 4 + 8 * i][lane % 4 * 2]) =
          make_float2(sums[j][2 * i], sums[j][2 * i + 1]);
  }
  __syncthreads();
  if (tid >= kFilters * kWindows) return;
  const int filter = tid % kFilters, of_run = tid / kFilters;
  const bool inside = filter0 + filter < g.d.k;
  const float b = bias != nullptr && inside ? __ldg(bias + filter0 + filter) : 0.f;
  float values[4] = {b, b, b, b};
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
#pragma unroll
    for (int low = 0; low < 2; ++low) {
      const float2 pair =
          *reinterpret_cast<const float2*>(&all[i][of_run / 4 * 2 + low][filter][of_run % 4 * 2]);
      values[2 * low] += pair.x, values[2 * low + 1] += pair.y;
    }
  }
  const PooledValue pooled = pool_window(values[0], values[1], values[2], values[3]);
  uint32_t codes = pooled.code << 4 * (filter % 8);
#pragma unroll
  for (int distance = 1; distance < 8; distance *= 2)
    codes |= __shfl_xor_sync(~0u, codes, distance);
  const int window = window0 + of_run;
  if (!inside || window >= g.windows) return;
  const int k = filter0 + filter;
  y[planes ? (size_t(n) * g.d.k + k) * g.windows + window
           : (size_t(n) * g.windows + window) * g.d.k + k] = bfloat16(pooled.value);
  if (filter % 8 == 0)
    argmax[(size_t(n) * argmax_groups(g.d.k) + k / 8) * g.windows + window] = codes;
}

class Conv2dPoolReluCustomSplitK : public Conv2dPoolReluImpl {
 public:
  Conv2dPoolReluCustomSplitK(const Conv2dPoolReluProblem& problem, Context& context)
      : Conv2dPoolReluImpl(problem),
        geometry_(problem.conv),
        general_(make_custom_mma(problem, context)) {}

  void prepare(Pass pass, Context& context) override {
    if (pass != Pass::kForward) return general_->prepare(pass, context);
    require_mma();
    const auto most = static_cast<size_t>(gpu_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    if (geometry_.shared_bytes() > most) {
      throw UnsupportedError("conv2d_pool_relu custom_split_k: an image takes " +
                             std::to_string(geometry_.shared_bytes() >> 10) +
                             " KiB of shared memory, and a block has " +
                             std::to_string(most >> 10));
    }
    // Of the kernel, whatever problem it serves next.
    DUET_CUDA(cudaFuncSetAttribute(kernel(), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(most)));
  }
  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? 0 : general_->workspace_bytes(pass);
  }
  size_t state_bytes() const override { return general_->state_bytes(); }
  std::string detail(Pass pass) const override {
    if (pass != Pass::kForward) return "custom_mma: " + general_->detail(pass);
    return std::to_string(geometry_.blocks()) + " blocks, mma bf16";
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    const unsigned groups = ceil_div(problem_.conv.k, kFilters);
    launch_following({dim3(problem_.conv.n * geometry_.runs, groups), kThreads,
                      geometry_.shared_bytes(), run.stream()},
                     kernel(), geometry_, run.inference, x.data<bfloat16>(), w.data<float>(),
                     b.data<float>(), y.data<bfloat16>(), state.data<uint32_t>());
  }
  void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    general_->backward_data(run, y, dy, state, w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    general_->backward_filter(run, x, y, dy, state, dw, db);
  }

 private:
  using Kernel = decltype(&conv2d_pool_relu_split_k_kernel<kMostWindows, true, true>);
  Kernel kernel() const {
    return geometry_.run_windows == kMostWindows ? kernel<kMostWindows>()
                                                 : kernel<kMostWindows / 2>();
  }
  template <int windows>
  Kernel kernel() const {
    if (geometry_.depth % 2 == 0) return kernel<windows, true>();
    return kernel<windows, false>();
  }
  template <int windows, bool even>
  Kernel kernel() const {
    return geometry_.planes() ? conv2d_pool_relu_split_k_kernel<windows, true, even>
                              : conv2d_pool_relu_split_k_kernel<windows, false, even>;
  }

  const SplitKGeometry geometry_;
  const std::unique_ptr<Conv2dPoolReluImpl> general_;  // runs the backward passes
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  constexpr size_t kMost = 227 * 1024;  // of Hopper
  if (pass == Pass::kForward && SplitKGeometry(problem.conv).shared_bytes() > kMost) {
    return "keeps an image and its padding in shared memory, which is 227 KiB at most";
  }
  return {};
}

/// While each multiprocessor has two blocks at most: beyond that it was not measured.
bool preferred(const Conv2dPoolReluProblem& problem, Pass pass, size_t) {
  constexpr int kDeep = 128;  // terms, of which each warp has a piece
  const SplitKGeometry geometry(problem.conv);
  return pass == Pass::kForward && geometry.depth >= kDeep && geometry.blocks() <= 264;
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_split_k() {
  auto entry =
      impl_entry<Conv2dPoolReluCustomSplitK>("custom_split_k", unsupported, {DType::kBFloat16});
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
