// Pooling by 3x3 windows that overlap: a thread takes a strip of neighbouring outputs, or backward of
// neighbouring pixels of dx, and loads once what they share. All loads of a thread are under way before
// the first is used. Strides 1 and 2, paddings 0 and 1, equal for rows and columns.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/integers.cuh"
#include "layers/pool2d/pool2d_kernels.cuh"

namespace duet::pool2d {

/// kPlanes (NCHW): rows of x and y begin at multiples of `vector` values, which are moved at once. Else
/// (NHWC) a thread has so many channels; of 8 it would take registers that other threads need.
template <bool planes, int stride, int pad, int vector>
struct StripForm {
  static constexpr bool kPlanes = planes;
  static constexpr int kStride = stride, kPad = pad;
  static constexpr int V = planes ? 1 : vector;                           // channels of a thread
  static constexpr int kVector = planes ? vector : 1;                     // neighbours of a row
  static constexpr int kOutputs = !planes ? 2 : vector > 1 ? vector : 4;  // of forward's strip
  static constexpr int kColumns = (kOutputs - 1) * stride + 3;  // of x that its windows look at

  // Of backward's; where pixels are stored one by one, so few that neighbouring threads store neighbours.
  static constexpr int kPixels = planes && vector == 1 ? 2 : kOutputs * stride;
  // The outputs whose windows hold one of them: kHolding from kFirst behind the strip's number times
  // kStep.
  static constexpr int kStep = kPixels / stride, kFirst = -((2 - pad) / stride);
  static constexpr int kHolding = (kPixels - 1 + pad) / stride - kFirst + 1;
  static constexpr int kHoldingRows = stride == 1 ? 3 : 2;
};

inline bool has_strips(const Pool2dProblem& t) {
  return t.r == 3 && t.s == 3 && t.stride_h == t.stride_w && t.stride_h <= 2 &&
         t.pad_h == t.pad_w && (t.layout == Layout::kNCHW || t.c % 4 == 0);
}
/// The form's `vector`: of NCHW 16 bytes of T, or at least four values, where rows allow it.
template <class T>
int strip_vector(const Pool2dProblem& t) {
  if (t.layout == Layout::kNHWC) return 4;
  const auto divides = [&](int v) { return t.w % v == 0 && t.q % v == 0; };
  return divides(kWidest<T>) ? kWidest<T> : divides(4) ? 4 : 1;
}
/// Calls visit(StripForm()). REQUIRES: has_strips(t).
template <class T, class Visit>
void with_strip_form(const Pool2dProblem& t, Visit visit) {
  const auto with_pad = [&]<int stride, int pad>() {
    const int vector = strip_vector<T>(t);
    constexpr int kMost = kWidest<T>;
    if (t.layout == Layout::kNHWC) return visit(StripForm<false, stride, pad, 4>());
    if constexpr (pad == 1) {  // else W and Q are not both multiples of 4
      if (vector == kMost) return visit(StripForm<true, stride, pad, kMost>());
      if (vector == 4) return visit(StripForm<true, stride, pad, 4>());
    }
    visit(StripForm<true, stride, pad, 1>());
  };
  const auto with_stride = [&]<int stride>() {
    t.pad_h == 0 ? with_pad.template operator()<stride, 0>()
                 : with_pad.template operator()<stride, 1>();
  };
  t.stride_h == 1 ? with_stride.template operator()<1>() : with_stride.template operator()<2>();
}

/// The strips of all rows of an image's y, or dx.
struct Strips {
  FastDivisor by_channels, by_strips, by_rows;  // groups of V channels; strips of a row
  unsigned count;

  /// Of y.
  template <class F>
  static Strips of_outputs(F, const Pool2dProblem& t) {
    return Strips(t, F::V, t.p, ceil_div(t.q, F::kOutputs));
  }
  /// Of dx.
  template <class F>
  static Strips of_pixels(F, const Pool2dProblem& t) {
    return Strips(t, F::V, t.h, ceil_div(t.w, F::kPixels));
  }
  template <class... Parameters>
  void launch(const Run& run, void (*kernel)(Pool2dProblem, Strips, Parameters...),
              const Pool2dProblem& t, std::type_identity_t<Parameters>... arguments) const {
    const unsigned blocks = (count + kThreads - 1) / kThreads;
    launch_following({blocks, kThreads, 0, run.stream()}, kernel, t, *this, arguments...);
  }

 private:
  Strips(const Pool2dProblem& t, int channels, int rows, int strips)
      : by_channels(t.c / channels),
        by_strips(strips),
        by_rows(rows),
        count(t.n * (t.c / channels) * rows * strips) {}
};

/// A thread's strip: its number in row `row` of an image (of a plane, kPlanes).
template <class F>
struct StripPlace {
  int number, row, image, channel = 0;
  int step;  // between neighbouring pixels in memory

  __device__ __forceinline__ StripPlace(const Pool2dProblem& t, const Strips& strips, int i)
      : step(F::kPlanes ? 1 : t.c) {
    if constexpr (!F::kPlanes) {
      strips.by_channels.divmod(i, i, channel);
      channel *= F::V;
    }
    strips.by_strips.divmod(i, i, number);
    strips.by_rows.divmod(i, image, row);
  }
  /// Of the thread's channels in row `of` of its image in a tensor of `rows` x `columns`.
  __device__ __forceinline__ int offset(int rows, int columns, int of) const {
    return (image * rows + of) * columns * step + channel;
  }
};

/// Values of a row from column base + begin on, `fill` where there is none. REQUIRES: base is a
/// multiple of F::kVector; nothing writes the row while the kernel runs.
template <class F, int begin, int count, class T, class Value>
__device__ __forceinline__ void load_strip(const T* row, int base, int columns, int step,
                                           Value fill, Vector<Value, F::V> (&to)[count]) {
  constexpr int kVector = F::kVector;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const int at = begin + i, first = at & ~(kVector - 1), column = base + at;
    if (kVector > 1 && first >= begin && first + kVector <= begin + count) {  // known beforehand
      if (at != first) continue;
      Vector<Value, kVector> values;
#pragma unroll
      for (Value& value : values.v) value = fill;
      if (column < columns) values = load_constant<kVector>(row + column);
#pragma unroll
      for (int k = 0; k < kVector; ++k) to[i + k].v[0] = values.v[k];
    } else {
#pragma unroll
      for (int k = 0; k < F::V; ++k) to[i].v[k] = fill;
      if (column >= 0 && column < columns) to[i] = load<F::V>(row + column * step);
    }
  }
}
/// `from` to a row from column `base` on, as far as it has columns. REQUIRES: as above.
template <class F, int count, class T, class Value>
__device__ __forceinline__ void store_strip(T* row, int base, int columns, int step,
                                            const Vector<Value, F::V> (&from)[count]) {
  constexpr int kVector = F::kVector;
#pragma unroll
  for (int i = 0; i < count; i += kVector) {
    if constexpr (kVector > 1) {
      if (base + i >= columns) return;
      Vector<Value, kVector> values;
#pragma unroll
      for (int k = 0; k < kVector; ++k) values.v[k] = from[i + k].v[0];
      store_word(row + base + i, values);
    } else {
      if (base + i < columns) store_word(row + (base + i) * step, from[i]);
    }
  }
}

/// The larger of both; NaN if one is.
__device__ __forceinline__ float larger(float a, float b) {
#if __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a != a || a > b ? a : b;
#endif
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    max_pool2d_forward_strips_kernel(Pool2dProblem t, Strips strips, const T* x, T* y,
                                     uint8_t* positions) {
  wait_for_primary();
  if (thread_index() >= strips.count) return;
  const StripPlace<F> at(t, strips, thread_index());
  const int first = at.number * F::kOutputs, top = at.row * F::kStride - F::kPad;
  Vector<float, F::V> pixels[3][F::kColumns];
#pragma unroll
  for (int r = 0; r < 3; ++r) {
    const bool inside = top + r >= 0 && top + r < t.h;
    load_strip<F, -F::kPad>(x + at.offset(t.h, t.w, inside ? top + r : 0), first * F::kStride,
                            inside ? t.w : 0, at.step, -INFINITY, pixels[r]);
  }
  // First the largest values, which windows side by side share by columns, then where they are: fewer
  // steps than to keep both at each.
  Vector<float, F::V> columns[F::kColumns], largest[F::kOutputs];
  Vector<uint8_t, F::V> chosen[F::kOutputs];
#pragma unroll
  for (int i = 0; i < F::kColumns; ++i) {
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      columns[i].v[k] = larger(larger(pixels[0][i].v[k], pixels[1][i].v[k]), pixels[2][i].v[k]);
    }
  }
#pragma unroll
  for (int i = 0; i < F::kOutputs; ++i) {
    const bool left =
        (first + i) * F::kStride < F::kPad;  // of the image is the window's first column
    const int corner = (top < 0 ? 3 : 0) + (left ? 1 : 0);
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      constexpr int kStride = F::kStride;
      const float value = larger(larger(columns[i * kStride].v[k], columns[i * kStride + 1].v[k]),
                                 columns[i * kStride + 2].v[k]);
      int position = corner;
      if (value == value) {
#pragma unroll
        for (int j = 8; j >= 0; --j) {
          if (pixels[j / 3][i * kStride + j % 3].v[k] == value) position = j;
        }
        if (value == -INFINITY) position = corner;  // as large as what is outside
      } else {
#pragma unroll
        for (int j = 0; j < 9; ++j) {
          const float other = pixels[j / 3][i * kStride + j % 3].v[k];
          if (other != other) position = j;
        }
      }
      largest[i].v[k] = value;
      chosen[i].v[k] = static_cast<uint8_t>(position);
    }
  }
  const int row = at.offset(t.p, t.q, at.row);
  store_strip<F>(y + row, first, t.q, at.step, largest);
  store_strip<F>(positions + row, first, t.q, at.step, chosen);
}

/// Calls visit(p, r, inside) for the rows of outputs whose windows may hold pixels of row h: row r of
/// the windows of row p, if that is inside y. From above to below.
template <class F, class Visit>
__device__ __forceinline__ void for_each_holding_row(const Pool2dProblem& t, int h, Visit visit) {
  const int last = (h + F::kPad) / F::kStride;
#pragma unroll
  for (int i = F::kHoldingRows - 1; i >= 0; --i) {
    const int p = last - i, r = h + F::kPad - p * F::kStride;
    visit(F::kHoldingRows - 1 - i, p, r, p >= 0 && p < t.p && r < 3);
  }
}
/// Calls visit(i, j, s): column s of the window of output j, of those in question, is pixel i of the
/// strip. For each pixel from left to right.
template <class F, class Visit>
__device__ __forceinline__ void for_each_held_pixel(Visit visit) {
#pragma unroll
  for (int i = 0; i < F::kPixels; ++i) {
#pragma unroll
    for (int j = 0; j < F::kHolding; ++j) {
      const int s = i + F::kPad - (F::kFirst + j) * F::kStride;
      if (s >= 0 && s < 3) visit(i, j, s);
    }
  }
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    max_pool2d_backward_strips_kernel(Pool2dProblem t, Strips strips, const T* dy,
                                      const uint8_t* positions, T* dx) {
  wait_for_primary();
  if (thread_index() >= strips.count) return;
  const StripPlace<F> at(t, strips, thread_index());
  const int first = at.number * F::kStep;
  Vector<float, F::V> gradient[F::kHoldingRows][F::kHolding], sum[F::kPixels] = {};
  Vector<uint8_t, F::V> chosen[F::kHoldingRows][F::kHolding];
  for_each_holding_row<F>(t, at.row, [&](int i, int p, int, bool inside) {
    const int row = at.offset(t.p, t.q, inside ? p : 0), columns = inside ? t.q : 0;
    load_strip<F, F::kFirst>(dy + row, first, columns, at.step, 0.0f, gradient[i]);
    load_strip<F, F::kFirst>(positions + row, first, columns, at.step, uint8_t{255}, chosen[i]);
  });
  for_each_holding_row<F>(t, at.row, [&](int row, int, int r, bool) {
    for_each_held_pixel<F>([&](int i, int j, int s) {
#pragma unroll
      for (int k = 0; k < F::V; ++k) {
        if (chosen[row][j].v[k] == r * 3 + s) sum[i].v[k] += gradient[row][j].v[k];
      }
    });
  });
  store_strip<F>(dx + at.offset(t.h, t.w, at.row), at.number * F::kPixels, t.w, at.step, sum);
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    avg_pool2d_forward_strips_kernel(Pool2dProblem t, Strips strips, const T* x, T* y) {
  wait_for_primary();
  if (thread_index() >= strips.count) return;
  const StripPlace<F> at(t, strips, thread_index());
  const int first = at.number * F::kOutputs, top = at.row * F::kStride - F::kPad;
  Vector<float, F::V> pixels[3][F::kColumns], mean[F::kOutputs];
#pragma unroll
  for (int r = 0; r < 3; ++r) {
    const bool inside = top + r >= 0 && top + r < t.h;
    load_strip<F, -F::kPad>(x + at.offset(t.h, t.w, inside ? top + r : 0), first * F::kStride,
                            inside ? t.w : 0, at.step, 0.0f, pixels[r]);
  }
#pragma unroll
  for (int i = 0; i < F::kOutputs; ++i) {
    const float scale = 1.0f / t.divisor(t.pixels_of(at.row, min(first + i, t.q - 1)));
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      float sum = 0.0f;
#pragma unroll
      for (int j = 0; j < 9; ++j) sum += pixels[j / 3][i * F::kStride + j % 3].v[k];
      mean[i].v[k] = sum * scale;
    }
  }
  store_strip<F>(y + at.offset(t.p, t.q, at.row), first, t.q, at.step, mean);
}

template <class F, class T>
__global__ void __launch_bounds__(kThreads)
    avg_pool2d_backward_strips_kernel(Pool2dProblem t, Strips strips, const T* dy, T* dx) {
  wait_for_primary();
  if (thread_index() >= strips.count) return;
  const StripPlace<F> at(t, strips, thread_index());
  const int first = at.number * F::kStep;
  Vector<float, F::V> gradient[F::kHoldingRows][F::kHolding], sum[F::kPixels] = {};
  for_each_holding_row<F>(t, at.row, [&](int i, int p, int, bool inside) {
    load_strip<F, F::kFirst>(dy + at.offset(t.p, t.q, inside ? p : 0), first, inside ? t.q : 0,
                             at.step, 0.0f, gradient[i]);
  });
  for_each_holding_row<F>(t, at.row, [&](int row, int p, int, bool inside) {
#pragma unroll
    for (int j = 0; j < F::kHolding; ++j) {
      const int q = first + F::kFirst + j;
      float scale = 1.0f / t.window();
      if (!t.count_include_pad && inside && q >= 0 && q < t.q) {
        scale = 1.0f / t.divisor(t.pixels_of(p, q));
      }
#pragma unroll
      for (int k = 0; k < F::V; ++k) gradient[row][j].v[k] *= scale;
    }
    for_each_held_pixel<F>([&](int i, int j, int) {
#pragma unroll
      for (int k = 0; k < F::V; ++k) sum[i].v[k] += gradient[row][j].v[k];
    });
  });
  store_strip<F>(dx + at.offset(t.h, t.w, at.row), at.number * F::kPixels, t.w, at.step, sum);
}

template <int V>
using Channels = std::integral_constant<int, V>;
/// Calls tiles(TileForm or ChannelTileForm) or strips(StripForm) where t is of that form, else
/// vectors(Channels<channels_at_once(t)>).
template <class T, class Tiles, class StripsOf, class Vectors>
void with_form(const Pool2dProblem& t, Tiles tiles, StripsOf strips, Vectors vectors) {
  if (has_strips(t)) {
    with_strip_form<T>(t, strips);
  } else if (!tiles_2x2(t)) {
    channels_at_once(t) == 4 ? vectors(Channels<4>()) : vectors(Channels<1>());
  } else if (t.layout == Layout::kNHWC) {
    tile_outputs(t) == 4 ? tiles(ChannelTileForm<4>()) : tiles(ChannelTileForm<kWidest<T>>());
  } else if (t.w % 2 != 0) {
    tiles(TileForm<1, true>());
  } else if (tile_outputs(t) == kWidest<T> / 2) {
    tiles(TileForm<kWidest<T> / 2, false>());
  } else {
    tile_outputs(t) == 2 ? tiles(TileForm<2, false>()) : tiles(TileForm<1, false>());
  }
}

/// For tables: the form that custom_vectorized takes.
inline std::string form_text(const Pool2dProblem& t) {
  if (tiles_2x2(t)) {
    const bool planes = t.layout == Layout::kNCHW;
    return "2x2 tiles, " + std::to_string(tile_outputs(t)) + (planes ? " a thread" : " channels");
  }
  if (has_strips(t)) {
    if (t.layout == Layout::kNHWC) return "3x3 windows, 2 of 4 channels";
    const int v = t.dtype == DType::kBFloat16 ? strip_vector<bfloat16>(t) : strip_vector<float>(t);
    return "3x3 windows, rows " + std::to_string(v) + " at a time";
  }
  return channels_at_once(t) == 4 ? "4 channels a thread" : "1 element a thread";
}

}  // namespace duet::pool2d
