// avg_pool2d custom_naive: a thread an output; backward a thread a pixel, which gathers its share
//           of every window that holds it. So every dx is written once and no atomics are needed.
// Mapping:  forward thread = 1 output; backward thread = 1 pixel of dx; block = 256.
// Traffic:  forward x once (R*S / stride^2 times through L1), y once; backward dy likewise, dx
//           once.
// Limits:   fp32 or bf16, both layouts.
#include "device/check.h"
#include "layers/avg_pool2d/avg_pool2d_impls.h"
#include "layers/pool2d/pool2d_kernels.cuh"

namespace duet {
namespace {

using namespace pool2d;

template <class T>
__global__ void avg_pool2d_forward_naive_kernel(Pool2dProblem t, unsigned outputs, const T* x,
                                                T* y) {
  const unsigned i = thread_index();
  if (i >= outputs) return;
  const Place at = place_of<1>(t, i, t.p, t.q, t.h * t.w);
  const PixelRange pixels = t.pixels_of(at.row, at.column);
  float sum = 0.0f;
  for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
      sum += x[at.base + (h * t.w + w) * at.step];
    }
  }
  y[i] = T(sum / t.divisor(pixels));
}

template <class T>
__global__ void avg_pool2d_backward_naive_kernel(Pool2dProblem t, unsigned pixels, const T* dy,
                                                 T* dx) {
  const unsigned i = thread_index();
  if (i >= pixels) return;
  const Place at = place_of<1>(t, i, t.h, t.w, t.p * t.q);
  const PixelRange outputs = t.outputs_of(at.row, at.column);
  float sum = 0.0f;
  for (int p = outputs.h_begin; p < outputs.h_end; ++p) {
    for (int q = outputs.w_begin; q < outputs.w_end; ++q) {
      sum += dy[at.base + (p * t.q + q) * at.step] / t.divisor(t.pixels_of(p, q));
    }
  }
  dx[i] = T(sum);
}

class AvgPool2dCustomNaive : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    const int count = static_cast<int>(y.elements());
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      avg_pool2d_forward_naive_kernel<<<blocks_for(count), kThreads, 0, run.stream()>>>(
          problem_, count, x.data<T>(), y.data<T>());
      DUET_LAUNCHED();
    });
  }

  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    const int count = static_cast<int>(dx.elements());
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      avg_pool2d_backward_naive_kernel<<<blocks_for(count), kThreads, 0, run.stream()>>>(
          problem_, count, dy.data<T>(), dx.data<T>());
      DUET_LAUNCHED();
    });
  }
};

}  // namespace

ImplEntry<Pool2dProblem> avg_pool2d_custom_naive() {
  return {.id = "custom_naive",
          .unsupported = supports_all,
          .make = make_implementation<AvgPool2dCustomNaive>,
          .dtypes = gpu_dtypes()};
}

}  // namespace duet
