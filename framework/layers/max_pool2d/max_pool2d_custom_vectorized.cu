// max_pool2d custom_vectorized: several outputs a thread in wide accesses, and the place of a
//           maximum packed into the byte that its position in the window (0 .. R*S-1) fits.
// Mapping:  NHWC with C % 4 = 0: thread = 4 channels of a pixel. NCHW, 2x2 tiles: thread = 1 or 2
//           windows, in both passes. Else thread = 1 element. block = 256.
// Traffic:  x once, y once, 1 byte (4 for windows above 256) an output for the place; backward
//           reads dy and places and writes dx once.
// Limits:   fp32 or bf16, both layouts.
#include <cmath>
#include <cstdint>

#include "device/check.h"
#include "layers/max_pool2d/max_pool2d_impls.h"
#include "layers/pool2d/pool2d_kernels.cuh"

namespace duet {
namespace {

using namespace pool2d;

/// Position of pixel (h, w) in the window of output (p, q).
__device__ __forceinline__ int position(const Pool2dProblem& t, int p, int q, int h, int w) {
  return (h - p * t.stride_h + t.pad_h) * t.s + (w - q * t.stride_w + t.pad_w);
}

template <int V, class T, class Position>
__global__ void max_pool2d_forward_vectorized_kernel(Pool2dProblem t, unsigned groups, const T* x,
                                                     T* y, Position* positions) {
  const unsigned i = thread_index();
  if (i >= groups) return;
  const Place at = place_of<V>(t, i, t.p, t.q, t.h * t.w);
  const PixelRange pixels = t.pixels_of(at.row, at.column);
  const int first = position(t, at.row, at.column, pixels.h_begin, pixels.w_begin);
  Vector<float, V> largest;
  Vector<Position, V> chosen;
#pragma unroll
  for (int k = 0; k < V; ++k) {
    largest.v[k] = -INFINITY;
    chosen.v[k] = static_cast<Position>(first);
  }
  for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
    for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
      const auto values = load<V>(x + at.base + (h * t.w + w) * at.step);
      const int here = position(t, at.row, at.column, h, w);
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (takes_over(values.v[k], largest.v[k])) {
          largest.v[k] = values.v[k];
          chosen.v[k] = static_cast<Position>(here);
        }
      }
    }
  }
  store(y + i * V, largest);
  store(positions + i * V, chosen);
}

template <int V, class T, class Position>
__global__ void max_pool2d_backward_vectorized_kernel(Pool2dProblem t, unsigned groups, const T* dy,
                                                      const Position* positions, T* dx) {
  const unsigned i = thread_index();
  if (i >= groups) return;
  const Place at = place_of<V>(t, i, t.h, t.w, t.p * t.q);
  const PixelRange outputs = t.outputs_of(at.row, at.column);
  Vector<float, V> sum = {};
  for (int p = outputs.h_begin; p < outputs.h_end; ++p) {
    for (int q = outputs.w_begin; q < outputs.w_end; ++q) {
      const int o = at.base + (p * t.q + q) * at.step;
      const auto chosen = load<V>(positions + o);
      const auto gradient = load<V>(dy + o);
      const auto here = static_cast<Position>(position(t, p, q, at.row, at.column));
#pragma unroll
      for (int k = 0; k < V; ++k) {
        if (chosen.v[k] == here) sum.v[k] += gradient.v[k];
      }
    }
  }
  store(dx + i * V, sum);
}

template <class Form, class T>
__global__ void max_pool2d_forward_tiles_kernel(Pool2dProblem t, unsigned tiles, const T* x, T* y,
                                                uint8_t* positions) {
  constexpr int kOutputs = Form::kOutputs;
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<kOutputs>(t, i, t.p, t.q);
  const auto top = Form::load_pixels(x + at.x);
  const auto bottom = Form::load_pixels(x + at.x + t.w);
  typename Form::Outputs largest;
  Vector<uint8_t, kOutputs> chosen;
#pragma unroll
  for (int k = 0; k < kOutputs; ++k) {
    const float values[4] = {top.v[2 * k], top.v[2 * k + 1], bottom.v[2 * k], bottom.v[2 * k + 1]};
    largest.v[k] = values[0];
    chosen.v[k] = 0;
#pragma unroll
    for (int j = 1; j < 4; ++j) {
      if (takes_over(values[j], largest.v[k])) {
        largest.v[k] = values[j];
        chosen.v[k] = static_cast<uint8_t>(j);
      }
    }
  }
  store(y + at.y, largest);
  store(positions + at.y, chosen);
}

template <class Form, class T>
__global__ void max_pool2d_backward_tiles_kernel(Pool2dProblem t, unsigned tiles, const T* dy,
                                                 const uint8_t* positions, T* dx) {
  constexpr int kOutputs = Form::kOutputs;
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<kOutputs>(t, i, tile_rows(t), tile_columns(t));
  const bool below = at.row == t.p, beside = Form::kOddWidth && at.column == t.q;
  typename Form::Pixels top = {}, bottom = {};
  if (!below && !beside) {  // an odd last row or column is in no window
    const auto gradient = load<kOutputs>(dy + at.y);
    const auto chosen = load<kOutputs>(positions + at.y);
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      top.v[2 * k] = chosen.v[k] == 0 ? gradient.v[k] : 0.0f;
      top.v[2 * k + 1] = chosen.v[k] == 1 ? gradient.v[k] : 0.0f;
      bottom.v[2 * k] = chosen.v[k] == 2 ? gradient.v[k] : 0.0f;
      bottom.v[2 * k + 1] = chosen.v[k] == 3 ? gradient.v[k] : 0.0f;
    }
  }
  Form::store_pixels(dx + at.x, top, beside);
  if (!below) Form::store_pixels(dx + at.x + t.w, bottom, beside);
}

template <class Position>
class MaxPool2dCustomVectorized : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  size_t state_bytes() const override { return problem_.y_desc().elements() * sizeof(Position); }
  std::string detail(Pass) const override { return form_text(problem_); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto launch = [&](auto kernel, int64_t elements, auto* positions) {
        const int threads = static_cast<int>(elements);
        kernel<<<blocks_for(threads), kThreads, 0, run.stream()>>>(problem_, threads, x.data<T>(),
                                                                   y.data<T>(), positions);
        DUET_LAUNCHED();
      };
      if (tiles_2x2(problem_)) {
        return with_tile_form(problem_, [&](auto form) {
          using Form = decltype(form);
          launch(max_pool2d_forward_tiles_kernel<Form, T>, y.elements() / Form::kOutputs,
                 state.data<uint8_t>());
        });
      }
      Position* positions = state.data<Position>();
      channels_at_once(problem_) == 4
          ? launch(max_pool2d_forward_vectorized_kernel<4, T, Position>, y.elements() / 4,
                   positions)
          : launch(max_pool2d_forward_vectorized_kernel<1, T, Position>, y.elements(), positions);
    });
  }

  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor& state,
                const Tensor& dx) override {
    visit_gpu_storage(problem_.dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto launch = [&](auto kernel, int64_t elements, const auto* positions) {
        const int threads = static_cast<int>(elements);
        kernel<<<blocks_for(threads), kThreads, 0, run.stream()>>>(problem_, threads, dy.data<T>(),
                                                                   positions, dx.data<T>());
        DUET_LAUNCHED();
      };
      if (tiles_2x2(problem_)) {
        const int64_t tiles =
            int64_t{problem_.n} * problem_.c * tile_rows(problem_) * tile_columns(problem_);
        return with_tile_form(problem_, [&](auto form) {
          using Form = decltype(form);
          launch(max_pool2d_backward_tiles_kernel<Form, T>, tiles / Form::kOutputs,
                 state.data<uint8_t>());
        });
      }
      const Position* positions = state.data<Position>();
      channels_at_once(problem_) == 4
          ? launch(max_pool2d_backward_vectorized_kernel<4, T, Position>, dx.elements() / 4,
                   positions)
          : launch(max_pool2d_backward_vectorized_kernel<1, T, Position>, dx.elements(), positions);
    });
  }
};

std::unique_ptr<Implementation> make(const Pool2dProblem& problem, Context&) {
  if (problem.window() <= 256) {
    return std::make_unique<MaxPool2dCustomVectorized<uint8_t>>(problem);
  }
  return std::make_unique<MaxPool2dCustomVectorized<uint32_t>>(problem);
}

}  // namespace

ImplEntry<Pool2dProblem> max_pool2d_custom_vectorized() {
  return {
      .id = "custom_vectorized", .unsupported = supports_all, .make = make, .dtypes = gpu_dtypes()};
}

}  // namespace duet
