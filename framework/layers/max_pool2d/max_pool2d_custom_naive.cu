// max_pool2d custom_naive: a thread an output; forward keeps the place of each maximum, and
//           backward asks, for each pixel, which of its windows chose it. So every dx is written
//           once and no atomics are needed, also where windows overlap.
// Mapping:  forward thread = 1 output; backward thread = 1 pixel of dx; block = 256.
// Traffic:  forward x once (R*S / stride^2 times through L1), y and a 4-byte place once; backward
//           dy and places once, dx once.
// Limits:   fp32 or bf16, both layouts.
#include <cmath>

#include "device/check.h"
#include "layers/max_pool2d/max_pool2d_impls.h"
#include "layers/pool2d/pool2d_kernels.cuh"

namespace duet {
namespace {

using namespace pool2d;

// places[o]: the pixel h*W + w that output o chose.
template <class T>
__global__ void max_pool2d_forward_naive_kernel(Pool2dProblem t, unsigned outputs, const T* x, T* y,
                                                int* places) {
  const unsigned i = thread_index();
  if (i >= outputs) return;
  const Place at = place_of<1>(t, i, t.p, t.q, t.h * t.w);
  const PixelRange pixels = t.pixels_of(at.row, at.column);
  float largest = -INFINITY;
  int place = pixels.h_begin * t.w + pixels.w_begin;
  for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
      const int pixel = h * t.w + w;
      const float value = x[at.base + pixel * at.step];
      if (takes_over(value, largest)) {
        largest = value;
        place = pixel;
      }
    }
  }
  y[i] = T(largest);
  places[i] = place;
}

template <class T>
__global__ void max_pool2d_backward_naive_kernel(Pool2dProblem t, unsigned pixels, const T* dy,
                                                 const int* places, T* dx) {
  const unsigned i = thread_index();
  if (i >= pixels) return;
  const Place at = place_of<1>(t, i, t.h, t.w, t.p * t.q);
  const PixelRange outputs = t.outputs_of(at.row, at.column);
  const int pixel = at.row * t.w + at.column;
  float sum = 0.0f;
  for (int p = outputs.h_begin; p < outputs.h_end; ++p) {
    for (int q = outputs.w_begin; q < outputs.w_end; ++q) {
      const int o = at.base + (p * t.q + q) * at.step;
      if (places[o] == pixel) sum += dy[o];
    }
  }
  dx[i] = T(sum);
}

class MaxPool2dCustomNaive : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  size_t state_bytes() const override { return problem_.y_desc().elements() * sizeof(int); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    const int count = static_cast<int>(y.elements());
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      max_pool2d_forward_naive_kernel<<<blocks_for(count), kThreads, 0, run.stream()>>>(
          problem_, count, x.data<T>(), y.data<T>(), state.data<int>());
      DUET_LAUNCHED();
    });
  }

  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor& state,
                const Tensor& dx) override {
    const int count = static_cast<int>(dx.elements());
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      max_pool2d_backward_naive_kernel<<<blocks_for(count), kThreads, 0, run.stream()>>>(
          problem_, count, dy.data<T>(), state.data<int>(), dx.data<T>());
      DUET_LAUNCHED();
    });
  }
};

}  // namespace

ImplEntry<Pool2dProblem> max_pool2d_custom_naive() {
  return {.id = "custom_naive",
          .unsupported = supports_all,
          .make = make_implementation<MaxPool2dCustomNaive>,
          .dtypes = gpu_dtypes()};
}

}  // namespace duet
