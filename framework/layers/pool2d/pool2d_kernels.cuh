// What the pooling kernels share: which element a thread has, and the commonest form. All tensors
// have fewer than 2^31 elements, so offsets are ints.
#pragma once

#include <type_traits>

#include "device/check.h"
#include "device/launch.h"
#include "kernels/integers.cuh"
#include "kernels/vector.cuh"
#include "layers/pool2d/pool2d.h"

namespace duet::pool2d {

constexpr int kThreads = 256;

/// Queues `kernel` with `count` threads, of which it is told.
template <class... Parameters>
void launch(const Run& run, void (*kernel)(Pool2dProblem, unsigned, Parameters...),
            const Pool2dProblem& t, int64_t count, std::type_identity_t<Parameters>... arguments) {
  const auto threads = static_cast<unsigned>(count);
  launch_following({(threads + kThreads - 1) / kThreads, kThreads, 0, run.stream()}, kernel, t,
                   threads, arguments...);
}
__device__ __forceinline__ unsigned thread_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

/// Where the i-th group of V elements stands in the memory of a tensor of `rows` x `columns`
/// images, and where the same channels are in another tensor, whose images have `pixels` pixels:
/// its pixel k is at base + k * step.
struct Place {
  int row, column;
  int base, step;
};
template <int V>
__device__ __forceinline__ Place place_of(const Pool2dProblem& t, int i, int rows, int columns,
                                          int pixels) {
  if (t.layout == Layout::kNCHW) {  // V is 1
    const int column = i % columns, line = i / columns;
    return {line % rows, column, line / rows * pixels, 1};
  }
  const int groups = t.c / V;
  const int group = i % groups, pixel = i / groups;
  const int column = pixel % columns, line = pixel / columns;
  return {line % rows, column, line / rows * pixels * t.c + group * V, t.c};
}

/// The commonest pooling has a form of its own: 2x2 windows that tile the image, but for an odd last row
/// or column. A thread then takes kOutputs windows: in NCHW neighbours, of which two rows of 2 * kOutputs pixels
/// are one access each unless W is odd, in NHWC those of neighbouring channels.
inline bool tiles_2x2(const Pool2dProblem& t) {
  return (t.layout == Layout::kNCHW || t.c % 4 == 0) && t.r == 2 && t.s == 2 && t.stride_h == 2 &&
         t.stride_w == 2 && t.pad_h == 0 && t.pad_w == 0;
}
/// Pixels 2k and 2k + 1 are those of window k.
template <int outputs, bool odd>
struct TileForm {
  static constexpr int kOutputs = outputs;
  static constexpr bool kPlanes = true, kOddWidth = odd;
  using Outputs = Vector<float, kOutputs>;
  using Pixels = Vector<float, 2 * kOutputs>;

  template <class T>
  static __device__ __forceinline__ Pixels load_pixels(const Pool2dProblem&, const T* from) {
    if constexpr (!kOddWidth) return load<2 * kOutputs>(from);
    return {from[0], from[1]};
  }
  /// `half`: only the first pixel is in the image.
  template <class T>
  static __device__ __forceinline__ void store_pixels(const Pool2dProblem&, T* to,
                                                      const Pixels& pixels, bool half) {
    if constexpr (!kOddWidth) return store_word(to, pixels);
    to[0] = T(pixels.v[0]);
    if (!half) to[1] = T(pixels.v[1]);
  }
};
/// The same of so many neighbouring channels (NHWC).
template <int channels>
struct ChannelTileForm {
  static constexpr int kOutputs = channels;
  static constexpr bool kPlanes = false, kOddWidth = true;  // one form for both
  using Outputs = Vector<float, kOutputs>;
  using Pixels = Vector<float, 2 * kOutputs>;

  template <class T>
  static __device__ __forceinline__ Pixels load_pixels(const Pool2dProblem& t, const T* from) {
    const Outputs left = load<kOutputs>(from), right = load<kOutputs>(from + t.c);
    Pixels pixels;
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      pixels.v[2 * k] = left.v[k];
      pixels.v[2 * k + 1] = right.v[k];
    }
    return pixels;
  }
  template <class T>
  static __device__ __forceinline__ void store_pixels(const Pool2dProblem& t, T* to,
                                                      const Pixels& pixels, bool half) {
    Outputs left, right;
#pragma unroll
    for (int k = 0; k < kOutputs; ++k) {
      left.v[k] = pixels.v[2 * k];
      right.v[k] = pixels.v[2 * k + 1];
    }
    store_word(to, left);
    if (!half) store_word(to + t.c, right);
  }
};
/// Windows of a thread: in NCHW as many as have 16 bytes of a row, or half as many, where W allows it, else 1; in NHWC
/// 16 bytes of them where channels allow it, else 4.
inline int tile_outputs(const Pool2dProblem& t) {
  const int widest = 16 / static_cast<int>(size_of(t.dtype));
  if (t.layout == Layout::kNCHW) return t.w % widest == 0 ? widest / 2 : t.w % 4 == 0 ? 2 : 1;
  return t.c % widest == 0 ? widest : 4;
}
/// Rows and columns of tiles that cover x: one more than y has where H or W is odd.
DUET_HOST_DEVICE inline int tile_rows(const Pool2dProblem& t) { return (t.h + 1) / 2; }
DUET_HOST_DEVICE inline int tile_columns(const Pool2dProblem& t) { return (t.w + 1) / 2; }
inline int64_t all_tiles(const Pool2dProblem& t) {
  return int64_t{t.n} * t.c * tile_rows(t) * tile_columns(t);
}

/// The groups of kOutputs windows of `rows` x `columns`, numbered as memory has them.
struct TileNumbers {
  FastDivisor by_groups, by_columns, by_rows;

  template <class Form>
  static TileNumbers of(Form, const Pool2dProblem& t, int rows, int columns) {
    const int groups = (Form::kPlanes ? columns : t.c) / Form::kOutputs;
    return {FastDivisor(groups), FastDivisor(columns), FastDivisor(rows)};
  }
  template <class Form>
  static TileNumbers of_all(Form form, const Pool2dProblem& t) {
    return of(form, t, tile_rows(t), tile_columns(t));
  }
};

/// Group number i: where it stands, offsets of its first elements, and from a row of x to the next.
struct Tile {
  int row, column;
  int x, y;
  int below;
};
template <class Form>
__device__ __forceinline__ Tile tile_of(const Pool2dProblem& t, const TileNumbers& numbers, int i) {
  int line, group, image, row;
  numbers.by_groups.divmod(i, line, group);
  const int first = group * Form::kOutputs;
  if constexpr (Form::kPlanes) {
    numbers.by_rows.divmod(line, image, row);
    return {row, first, (image * t.h + 2 * row) * t.w + 2 * first,
            (image * t.p + row) * t.q + first, t.w};
  } else {
    int column;
    const int pixel = line;
    numbers.by_columns.divmod(pixel, line, column);
    numbers.by_rows.divmod(line, image, row);
    return {row, column, ((image * t.h + 2 * row) * t.w + 2 * column) * t.c + first,
            ((image * t.p + row) * t.q + column) * t.c + first, t.w * t.c};
  }
}

/// Channels that a thread takes at once outside the 2x2 form.
inline int channels_at_once(const Pool2dProblem& t) {
  return t.layout == Layout::kNHWC && t.c % 4 == 0 ? 4 : 1;
}

}  // namespace duet::pool2d
