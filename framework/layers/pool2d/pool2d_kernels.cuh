// What the pooling kernels share: which element a thread has, and the commonest form. All tensors
// have fewer than 2^31 elements, so offsets are ints.
#pragma once

#include <type_traits>

#include "device/check.h"
#include "device/launch.h"
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

/// The commonest pooling has a form of its own: NCHW and 2x2 windows that tile the image, but for
/// an odd last row or column. A thread then takes kOutputs neighbouring windows: two rows of 2 *
/// kOutputs pixels, which are one access each unless W is odd.
inline bool tiles_2x2(const Pool2dProblem& t) {
  return t.layout == Layout::kNCHW && t.r == 2 && t.s == 2 && t.stride_h == 2 && t.stride_w == 2 &&
         t.pad_h == 0 && t.pad_w == 0;
}
template <int outputs, bool odd>
struct TileForm {
  static constexpr int kOutputs = outputs;
  static constexpr bool kOddWidth = odd;
  using Outputs = Vector<float, kOutputs>;
  using Pixels = Vector<float, 2 * kOutputs>;

  template <class T>
  static __device__ __forceinline__ Pixels load_pixels(const T* from) {
    if constexpr (!kOddWidth) return load<2 * kOutputs>(from);
    return {from[0], from[1]};
  }
  /// `half`: only the first pixel is in the image.
  template <class T>
  static __device__ __forceinline__ void store_pixels(T* to, const Pixels& pixels, bool half) {
    if constexpr (!kOddWidth) return store(to, pixels);
    to[0] = T(pixels.v[0]);
    if (!half) to[1] = T(pixels.v[1]);
  }
};
/// Windows of a thread: 2 where rows are 16-byte aligned, else 1.
inline int tile_outputs(const Pool2dProblem& t) { return t.w % 4 == 0 ? 2 : 1; }
/// Rows and columns of tiles that cover x: one more than y has where H or W is odd.
DUET_HOST_DEVICE inline int tile_rows(const Pool2dProblem& t) { return (t.h + 1) / 2; }
DUET_HOST_DEVICE inline int tile_columns(const Pool2dProblem& t) { return (t.w + 1) / 2; }
inline int64_t all_tiles(const Pool2dProblem& t) {
  return int64_t{t.n} * t.c * tile_rows(t) * tile_columns(t);
}

/// The i-th group of kOutputs windows of `rows` x `columns`: where it stands, and offsets of its
/// first elements.
struct Tile {
  int row, column;
  int x, y;
};
template <int kOutputs>
__device__ __forceinline__ Tile tile_of(const Pool2dProblem& t, int i, int rows, int columns) {
  const int groups = columns / kOutputs;
  const int column = i % groups * kOutputs, line = i / groups;
  const int row = line % rows, plane = line / rows;
  return {row, column, (plane * t.h + 2 * row) * t.w + 2 * column,
          (plane * t.p + row) * t.q + column};
}

/// Channels that a thread takes at once outside the 2x2 form.
inline int channels_at_once(const Pool2dProblem& t) {
  return t.layout == Layout::kNHWC && t.c % 4 == 0 ? 4 : 1;
}

}  // namespace duet::pool2d
