// max_pool2d and avg_pool2d custom_vectorized: several outputs a thread in wide accesses. The place
//           of a maximum is packed into the byte that its position in the window (0 .. R*S-1) fits;
//           averages multiply by 1/(R*S) wherever the divisor is the same everywhere.
// Mapping:  3x3 windows of stride 1 or 2: thread = a strip of 4 or 8 outputs (NHWC with C % 4 = 0: of 2
//           of 4 channels), backward of as many pixels times the stride. 2x2 tiles: thread = 1 or 2
//           windows (NHWC with C % 4 = 0: those of 4 channels, bf16 8), in both passes. Other windows, NHWC with C % 4 = 0: thread = 4 channels of a
//           pixel. Else thread = 1 element. block = 256.
// Traffic:  x once (R*S / stride^2 times through L1), y once, for the maximum 1 byte (4 for windows
//           above 256) an output for the place; backward dy and places likewise, dx once.
// Limits:   fp32 or bf16, both layouts.
#include <cmath>
#include <cstdint>

#include "device/launch.h"
#include "layers/pool2d/pool2d_kernels.cuh"
#include "layers/pool2d/pool2d_strips.cuh"

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
  wait_for_primary();
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
  wait_for_primary();
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
__global__ void max_pool2d_forward_tiles_kernel(Pool2dProblem t, unsigned tiles,
                                                TileNumbers numbers, const T* x, T* y,
                                                uint8_t* positions) {
  wait_for_primary();
  constexpr int kOutputs = Form::kOutputs;
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<Form>(t, numbers, i);
  const auto top = Form::load_pixels(t, x + at.x);
  const auto bottom = Form::load_pixels(t, x + at.x + at.below);
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
__global__ void max_pool2d_backward_tiles_kernel(Pool2dProblem t, unsigned tiles,
                                                 TileNumbers numbers, const T* dy,
                                                 const uint8_t* positions, T* dx) {
  wait_for_primary();
  constexpr int kOutputs = Form::kOutputs;
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<Form>(t, numbers, i);
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
  Form::store_pixels(t, dx + at.x, top, beside);
  if (!below) Form::store_pixels(t, dx + at.x + at.below, bottom, beside);
}

template <class T>
class MaxPool2dCustomVectorized : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  size_t state_bytes() const override {
    return problem_.y_desc().elements() * (small() ? sizeof(uint8_t) : sizeof(uint32_t));
  }
  std::string detail(Pass) const override { return form_text(problem_); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    with_form<T>(
        problem_,
        [&]<class Form>(Form form) {
          launch(run, max_pool2d_forward_tiles_kernel<Form, T>, problem_,
                 y.elements() / Form::kOutputs,
                 TileNumbers::of(form, problem_, problem_.p, problem_.q), x.data<T>(), y.data<T>(),
                 state.data<uint8_t>());
        },
        [&](auto form) {
          Strips::of_outputs(form, problem_)
              .launch(run, max_pool2d_forward_strips_kernel<decltype(form), T>, problem_,
                      x.data<T>(), y.data<T>(), state.data<uint8_t>());
        },
        [&]<int V>(Channels<V>) {
          with_position([&]<class Position>(Position) {
            launch(run, max_pool2d_forward_vectorized_kernel<V, T, Position>, problem_,
                   y.elements() / V, x.data<T>(), y.data<T>(), state.data<Position>());
          });
        });
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor& state,
                const Tensor& dx) override {
    with_form<T>(
        problem_,
        [&]<class Form>(Form form) {
          launch(run, max_pool2d_backward_tiles_kernel<Form, T>, problem_,
                 all_tiles(problem_) / Form::kOutputs, TileNumbers::of_all(form, problem_),
                 dy.data<T>(), state.data<uint8_t>(), dx.data<T>());
        },
        [&](auto form) {
          Strips::of_pixels(form, problem_)
              .launch(run, max_pool2d_backward_strips_kernel<decltype(form), T>, problem_,
                      dy.data<T>(), state.data<uint8_t>(), dx.data<T>());
        },
        [&]<int V>(Channels<V>) {
          with_position([&]<class Position>(Position) {
            launch(run, max_pool2d_backward_vectorized_kernel<V, T, Position>, problem_,
                   dx.elements() / V, dy.data<T>(), state.data<Position>(), dx.data<T>());
          });
        });
  }

 private:
  bool small() const { return problem_.window() <= 256; }
  /// Calls f with a value of the type that a position takes.
  template <class F>
  void with_position(F f) const {
    small() ? f(uint8_t{}) : f(uint32_t{});
  }
};

template <int V, class T>
__global__ void avg_pool2d_forward_vectorized_kernel(Pool2dProblem t, unsigned groups, const T* x,
                                                     T* y) {
  wait_for_primary();
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
  wait_for_primary();
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
__global__ void avg_pool2d_forward_tiles_kernel(Pool2dProblem t, unsigned tiles,
                                                TileNumbers numbers, const T* x, T* y) {
  wait_for_primary();
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<Form>(t, numbers, i);
  const auto top = Form::load_pixels(t, x + at.x);
  const auto bottom = Form::load_pixels(t, x + at.x + at.below);
  typename Form::Outputs mean;
#pragma unroll
  for (int k = 0; k < Form::kOutputs; ++k) {
    mean.v[k] = 0.25f * (top.v[2 * k] + top.v[2 * k + 1] + bottom.v[2 * k] + bottom.v[2 * k + 1]);
  }
  store(y + at.y, mean);
}

template <class Form, class T>
__global__ void avg_pool2d_backward_tiles_kernel(Pool2dProblem t, unsigned tiles,
                                                 TileNumbers numbers, const T* dy, T* dx) {
  wait_for_primary();
  const unsigned i = thread_index();
  if (i >= tiles) return;
  const Tile at = tile_of<Form>(t, numbers, i);
  const bool below = at.row == t.p, beside = Form::kOddWidth && at.column == t.q;
  typename Form::Pixels share = {};
  if (!below && !beside) {  // an odd last row or column is in no window
    const auto gradient = load<Form::kOutputs>(dy + at.y);
#pragma unroll
    for (int k = 0; k < Form::kOutputs; ++k) {
      share.v[2 * k] = share.v[2 * k + 1] = 0.25f * gradient.v[k];
    }
  }
  Form::store_pixels(t, dx + at.x, share, beside);
  if (!below) Form::store_pixels(t, dx + at.x + at.below, share, beside);
}

template <class T>
class AvgPool2dCustomVectorized : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  std::string detail(Pass) const override { return form_text(problem_); }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    with_form<T>(
        problem_,
        [&]<class Form>(Form form) {
          launch(run, avg_pool2d_forward_tiles_kernel<Form, T>, problem_,
                 y.elements() / Form::kOutputs,
                 TileNumbers::of(form, problem_, problem_.p, problem_.q), x.data<T>(), y.data<T>());
        },
        [&](auto form) {
          Strips::of_outputs(form, problem_)
              .launch(run, avg_pool2d_forward_strips_kernel<decltype(form), T>, problem_,
                      x.data<T>(), y.data<T>());
        },
        [&]<int V>(Channels<V>) {
          launch(run, avg_pool2d_forward_vectorized_kernel<V, T>, problem_, y.elements() / V,
                 x.data<T>(), y.data<T>());
        });
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    with_form<T>(
        problem_,
        [&]<class Form>(Form form) {
          launch(run, avg_pool2d_backward_tiles_kernel<Form, T>, problem_,
                 all_tiles(problem_) / Form::kOutputs, TileNumbers::of_all(form, problem_),
                 dy.data<T>(), dx.data<T>());
        },
        [&](auto form) {
          Strips::of_pixels(form, problem_)
              .launch(run, avg_pool2d_backward_strips_kernel<decltype(form), T>, problem_,
                      dy.data<T>(), dx.data<T>());
        },
        [&]<int V>(Channels<V>) {
          launch(run, avg_pool2d_backward_vectorized_kernel<V, T>, problem_, dx.elements() / V,
                 dy.data<T>(), dx.data<T>());
        });
  }
};

}  // namespace

ImplEntry<Pool2dProblem> max_pool2d_custom_vectorized() {
  return gpu_entry<MaxPool2dCustomVectorized>("custom_vectorized");
}
ImplEntry<Pool2dProblem> avg_pool2d_custom_vectorized() {
  return gpu_entry<AvgPool2dCustomVectorized>("custom_vectorized");
}

}  // namespace duet
