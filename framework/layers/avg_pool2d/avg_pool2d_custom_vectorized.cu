// avg_pool2d custom_vectorized: several outputs a thread in wide accesses, and one product with
//           1/(R*S) in place of a division wherever the divisor is the same everywhere.
// Mapping:  NHWC with C % 4 = 0: thread = 4 channels of a pixel. NCHW, 2x2 tiles: thread = 1 or 2
//           windows, in both passes. Else thread = 1 element. block = 256.
// Traffic:  x once (R*S / stride^2 times through L1), y once; backward dy likewise, dx once.
// Limits:   fp32 or bf16, both layouts.
#include "device/check.h"
#include "layers/avg_pool2d/avg_pool2d_impls.h"
#include "layers/pool2d/pool2d_kernels.cuh"

namespace duet {
namespace {

using namespace pool2d;

template <int V, class T>
__global__ void avg_pool2d_forward_vectorized_kernel(Pool2dProblem t, unsigned groups, const T* x,
                                                     T* y) {
  const unsigned i = thread_index();
  if (i >= groups) return;
  const Place at = place_of<V>(t, i, t.p, t.q, t.h * t.w);
  const PixelRange pixels = t.pixels_of(at.row, at.column);
  Vector<float, V> sum = {};
  for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
      const auto values = load<V>(x + at.base + (h * t.w + w) * at.step);
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += values.v[k];
    }
  }
  const float scale = 1.0f / t.divisor(pixels);
#pragma unroll
  for (int k = 0; k < V; ++k) sum.v[k] *= scale;
  store(y + i * V, sum);
}

template <int V, class T>
__global__ void avg_pool2d_backward_vectorized_kernel(Pool2dProblem t, unsigned groups, const T* dy,
                                                      T* dx) {
  const unsigned i = thread_index();
  if (i >= groups) return;
  const Place at = place_of<V>(t, i, t.h, t.w, t.p * t.q);
  const PixelRange outputs = t.outputs_of(at.row, at.column);
  Vector<float, V> sum = {};
  float scale = 1.0f / t.window();
  for (int p = outputs.h_begin; p < outputs.h_end; ++p) {
    for (int q = outputs.w_begin; q < outputs.w_end; ++q) {
      const auto gradient = load<V>(dy + at.base + (p * t.q + q) * at.step);
      if (!t.count_include_pad) scale = 1.0f / t.divisor(t.pixels_of(p, q));
#pragma unroll
      for (int k = 0; k < V; ++k) sum.v[k] += gradient.v[k] * scale;
    }
  }
  store(dx + i * V, sum);
}

template <class Form, class T>
__global__ void avg_pool2d_forward_tiles_kernel(Pool2dProblem t, unsigned tiles, const T* x, T* y) {
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<Form::kOutputs>(t, i, t.p, t.q);
  const auto top = Form::load_pixels(x + at.x);
  const auto bottom = Form::load_pixels(x + at.x + t.w);
  typename Form::Outputs mean;
#pragma unroll
  for (int k = 0; k < Form::kOutputs; ++k) {
    mean.v[k] = 0.25f * (top.v[2 * k] + top.v[2 * k + 1] + bottom.v[2 * k] + bottom.v[2 * k + 1]);
  }
  store(y + at.y, mean);
}

template <class Form, class T>
__global__ void avg_pool2d_backward_tiles_kernel(Pool2dProblem t, unsigned tiles, const T* dy,
                                                 T* dx) {
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<Form::kOutputs>(t, i, tile_rows(t), tile_columns(t));
  const bool below = at.row == t.p, beside = Form::kOddWidth && at.column == t.q;
  typename Form::Pixels share = {};
  if (!below && !beside) {  // an odd last row or column is in no window
    const auto gradient = load<Form::kOutputs>(dy + at.y);
#pragma unroll
    for (int k = 0; k < Form::kOutputs; ++k) {
      share.v[2 * k] = share.v[2 * k + 1] = 0.25f * gradient.v[k];
    }
  }
  Form::store_pixels(dx + at.x, share, beside);
  if (!below) Form::store_pixels(dx + at.x + t.w, share, beside);
}

class AvgPool2dCustomVectorized : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  std::string detail(Pass) const override { return form_text(problem_); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto launch = [&](auto kernel, int64_t elements) {
        const int threads = static_cast<int>(elements);
        kernel<<<blocks_for(threads), kThreads, 0, run.stream()>>>(problem_, threads, x.data<T>(),
                                                                   y.data<T>());
        DUET_LAUNCHED();
      };
      if (tiles_2x2(problem_)) {
        with_tile_form(problem_, [&](auto form) {
          using Form = decltype(form);
          launch(avg_pool2d_forward_tiles_kernel<Form, T>, y.elements() / Form::kOutputs);
        });
      } else {
        channels_at_once(problem_) == 4
            ? launch(avg_pool2d_forward_vectorized_kernel<4, T>, y.elements() / 4)
            : launch(avg_pool2d_forward_vectorized_kernel<1, T>, y.elements());
      }
    });
  }

  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto launch = [&](auto kernel, int64_t elements) {
        const int threads = static_cast<int>(elements);
        kernel<<<blocks_for(threads), kThreads, 0, run.stream()>>>(problem_, threads, dy.data<T>(),
                                                                   dx.data<T>());
        DUET_LAUNCHED();
      };
      if (tiles_2x2(problem_)) {
        const int64_t tiles =
            int64_t{problem_.n} * problem_.c * tile_rows(problem_) * tile_columns(problem_);
        with_tile_form(problem_, [&](auto form) {
          using Form = decltype(form);
          launch(avg_pool2d_backward_tiles_kernel<Form, T>, tiles / Form::kOutputs);
        });
      } else {
        channels_at_once(problem_) == 4
            ? launch(avg_pool2d_backward_vectorized_kernel<4, T>, dx.elements() / 4)
            : launch(avg_pool2d_backward_vectorized_kernel<1, T>, dx.elements());
      }
    });
  }
};

}  // namespace

ImplEntry<Pool2dProblem> avg_pool2d_custom_vectorized() {
  return {.id = "custom_vectorized",
          .unsupported = supports_all,
          .make = make_implementation<AvgPool2dCustomVectorized>,
          .dtypes = gpu_dtypes()};
}

}  // namespace duet
