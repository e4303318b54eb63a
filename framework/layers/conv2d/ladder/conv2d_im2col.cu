// im2col and its transpose, col2im.
// Mapping:  thread = one element of the matrix, or one dx; neighbours in a warp are neighbours in
//           memory.
// Traffic:  im2col reads x R*S times, mostly from the caches, and writes the matrix, R*S (by the
//           strides fewer) times the size of x; col2im reads all that again.
// Limits:   groups = 1, 32-bit element numbers.
#include "device/launch.h"
#include "layers/conv2d/ladder/conv2d_im2col.h"

#include "core/error.h"
#include "layers/conv2d/ladder/conv2d_gathers.cuh"

namespace duet {
namespace {

constexpr int kThreads = 256;

template <Layout kLayout, class T>
__global__ void __launch_bounds__(kThreads)
    conv2d_im2col_kernel(const __grid_constant__ PatchReader<kLayout, PixelOrder, T> patches,
                         FastDivisor by_inner, int count, T* columns) {
  wait_for_primary();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  int outer, inner;
  by_inner.divmod(i, outer, inner);
  // region element
  const bool nchw = kLayout == Layout::kNCHW;
  const int from =
      patches.offset(patches.origin(nchw ? inner : outer), patches.tap(nchw ? outer : inner));
  columns[i] = from < 0 ? T(0.f) : patches.x[from];
  // end element
}

template <Layout kLayout, class T>
__global__ void __launch_bounds__(kThreads)
    conv2d_col2im_kernel(const __grid_constant__ ConvGeometry g, int count, const float* columns,
                         T* dx) {
  wait_for_primary();
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= count) return;
  const Conv2dProblem& d = g.d;
  const int positions = d.n * g.pixels_out, taps = d.c * g.taps;
  int n, c, pixel, h, w;
  if constexpr (kLayout == Layout::kNCHW) {
    int plane;
    g.by_pixels_in.divmod(i, plane, pixel);
    g.by_c.divmod(plane, n, c);
  } else {
    int rest;
    g.by_c.divmod(i, rest, c);
    g.by_pixels_in.divmod(rest, n, pixel);
  }
  g.by_w.divmod(pixel, h, w);
  float sum = 0.0f;
  for (int r = 0; r < d.r; ++r) {
    const int top = h + d.pad_h - r * d.dilation_h, p = top / d.stride_h;
    if (top < 0 || top % d.stride_h != 0 || p >= d.p) continue;
    for (int s = 0; s < d.s; ++s) {
      const int left = w + d.pad_w - s * d.dilation_w, q = left / d.stride_w;
      if (left < 0 || left % d.stride_w != 0 || q >= d.q) continue;
      const int position = (n * d.p + p) * d.q + q;
      sum += kLayout == Layout::kNCHW ? columns[((c * d.r + r) * d.s + s) * positions + position]
                                      : columns[position * taps + (r * d.s + s) * d.c + c];
    }
  }
  dx[i] = T(sum);
}

/// Calls visit(T()) in the layout's constant.
template <class Visit>
void with_layout(const Conv2dProblem& d, Visit&& visit) {
  visit_gpu_storage(d.dtype, [&](auto zero) {
    using T = decltype(zero);
    d.layout == Layout::kNCHW ? visit.template operator()<Layout::kNCHW, T>()
                              : visit.template operator()<Layout::kNHWC, T>();
  });
}

}  // namespace

std::optional<std::string> im2col_unsupported(const Conv2dProblem& d) {
  if (auto reason = gathers_unsupported(d)) return reason;
  constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
  const int64_t elements =
      saturated_product_of({d.n, d.p, d.q, int64_t{d.c}, int64_t{d.r}, int64_t{d.s}});
  if (elements > kMost) return "its im2col matrix has more than 2^31 elements; use a smaller batch";
  // Positions and taps make a grid's y, by tiles of 32 and more.
  constexpr int kMostRows = 32 * 65535;
  if (im2col_positions(d) > kMostRows || im2col_taps(d) > kMostRows) {
    return "takes at most " + std::to_string(kMostRows) + " output positions and taps";
  }
  return {};
}

void check_im2col_workspace(const Context& context, std::string_view id, size_t bytes) {
  if (bytes <= context.workspace_limit()) return;
  throw UnsupportedError("conv2d " + std::string(id) + ": stores its im2col matrix and takes " +
                         std::to_string((bytes >> 20) + 1) +
                         " MiB of workspace; raise workspace_limit_mib, or take another");
}

void queue_im2col(const Conv2dProblem& d, const Tensor& x, void* columns, const Run& run) {
  with_layout(d, [&]<Layout kLayout, class T>() {
    const int positions = im2col_positions(d), taps = im2col_taps(d), count = positions * taps;
    launch_following(
        {ceil_div(count, kThreads), kThreads, 0, run.stream()}, conv2d_im2col_kernel<kLayout, T>,
        {x.data<T>(), ConvGeometry(d), positions, taps},
        FastDivisor(kLayout == Layout::kNCHW ? positions : taps), count, static_cast<T*>(columns));
  });
}

void queue_col2im(const Conv2dProblem& d, const float* columns, const Tensor& dx, const Run& run) {
  with_layout(d, [&]<Layout kLayout, class T>() {
    const int count = static_cast<int>(dx.elements());
    launch_following({ceil_div(count, kThreads), kThreads, 0, run.stream()},
                     conv2d_col2im_kernel<kLayout, T>, ConvGeometry(d), count, columns,
                     dx.data<T>());
  });
}

}  // namespace duet
