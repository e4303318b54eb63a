// max_pool2d, avg_pool2d and global_avg_pool2d custom_naive: a thread an output; backward a thread a pixel, which asks
//           every window that holds it for its share. So every dx is written once and no atomics
//           are needed, also where windows overlap. The maximum's forward keeps its places.
// Mapping:  forward thread = 1 output; backward thread = 1 pixel of dx; block = 256.
// Traffic:  forward x once (R*S / stride^2 times through L1), y and, for the maximum, a 4-byte place
//           once; backward dy and places likewise, dx once.
// Limits:   fp32 or bf16, both layouts.
#include <cmath>

#include "device/launch.h"
#include "layers/pool2d/pool2d_kernels.cuh"

namespace duet {
namespace {

using namespace pool2d;

// places[o]: the pixel h*W + w that output o chose.
template <class T>
__global__ void max_pool2d_forward_naive_kernel(Pool2dProblem t, unsigned outputs, const T* x, T* y,
                                                int* places) {
  wait_for_primary();
  const unsigned i = thread_index();
  if (i >= outputs) return;
  const Place at = place_of<1>(t, i, t.p, t.q, t.h * t.w);
  const PixelRange pixels = t.pixels_of(at.row, at.column);
  Accumulator<T> largest = -INFINITY;
  int place = pixels.h_begin * t.w + pixels.w_begin;
  for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
      const int pixel = h * t.w + w;
      const Accumulator<T> value = x[at.base + pixel * at.step];
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
  wait_for_primary();
  const unsigned i = thread_index();
  if (i >= pixels) return;
  const Place at = place_of<1>(t, i, t.h, t.w, t.p * t.q);
  const PixelRange outputs = t.outputs_of(at.row, at.column);
  const int pixel = at.row * t.w + at.column;
  Accumulator<T> sum = 0;
  for (int p = outputs.h_begin; p < outputs.h_end; ++p) {
    for (int q = outputs.w_begin; q < outputs.w_end; ++q) {
      const int o = at.base + (p * t.q + q) * at.step;
      if (places[o] == pixel) sum += dy[o];
    }
  }
  dx[i] = T(sum);
}

template <class T>
class MaxPool2dCustomNaive : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  size_t state_bytes() const override { return problem_.y_desc().elements() * sizeof(int); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    launch(run, max_pool2d_forward_naive_kernel<T>, problem_, y.elements(), x.data<T>(),
           y.data<T>(), state.data<int>());
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor& state,
                const Tensor& dx) override {
    launch(run, max_pool2d_backward_naive_kernel<T>, problem_, dx.elements(), dy.data<T>(),
           state.data<int>(), dx.data<T>());
  }
};

template <class T>
__global__ void avg_pool2d_forward_naive_kernel(Pool2dProblem t, unsigned outputs, const T* x,
                                                T* y) {
  wait_for_primary();
  const unsigned i = thread_index();
  if (i >= outputs) return;
  const Place at = place_of<1>(t, i, t.p, t.q, t.h * t.w);
  const PixelRange pixels = t.pixels_of(at.row, at.column);
  float sum = 0.0f;
  // region sum
  // A row by itself: one sum of a whole image of 56 x 56 would lose more than the limit to rounding.
  for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
    float row = 0.0f;
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
      row += x[at.base + (h * t.w + w) * at.step];
    }
    sum += row;
  }
  y[i] = T(sum / t.divisor(pixels));
  // end sum
}

template <class T>
__global__ void avg_pool2d_backward_naive_kernel(Pool2dProblem t, unsigned pixels, const T* dy,
                                                 T* dx) {
  wait_for_primary();
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

template <class T>
class AvgPool2dCustomNaive : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    launch(run, avg_pool2d_forward_naive_kernel<T>, problem_, y.elements(), x.data<T>(),
           y.data<T>());
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    launch(run, avg_pool2d_backward_naive_kernel<T>, problem_, dx.elements(), dy.data<T>(),
           dx.data<T>());
  }
};

}  // namespace

std::unique_ptr<Implementation> make_max_pool2d_gpu_reference(const Pool2dProblem& problem) {
  return std::make_unique<MaxPool2dCustomNaive<double>>(problem);
}

ImplEntry<Pool2dProblem> max_pool2d_custom_naive() {
  return gpu_entry<MaxPool2dCustomNaive>("custom_naive");
}
ImplEntry<Pool2dProblem> avg_pool2d_custom_naive() {
  return gpu_entry<AvgPool2dCustomNaive>("custom_naive");
}
/// The average whose one window is the image.
ImplEntry<Pool2dProblem> global_avg_pool2d_custom_naive() { return avg_pool2d_custom_naive(); }

}  // namespace duet
