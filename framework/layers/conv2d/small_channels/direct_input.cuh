// custom_direct, backward_data in nchw with stride 1 and few channels, on float32 units: dx of two rows of four positions
// and all channels are sums of a thread while filters go by, as a product with so few rows leaves tensor cores idle.
//
//   dx[n,c,h,w] = sum over k,r,s of dy[n,k,h + pad_h - r,w + pad_w - s] * w[k,c,r,s]
//
// A block has a rectangle of an image. Of each filter the dy that it reads lies in shared memory, with zeros for what is
// outside; that of the next filter travels to registers while this one's is multiplied. So does each filter's weights,
// which all threads read at once.
#pragma once

#include <algorithm>
#include <string>

#include "device/launch.h"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d/small_channels/direct_convolution.cuh"

namespace duet {

/// Of a thread: rows and columns, and values of dy that it brings of a filter. Threads of a block at most.
inline constexpr int kInputPatchRows = 2, kInputPatchColumns = 4, kInputFetches = 12,
                     kInputPatchThreads = 256;
/// Floats of a filter's weights in shared memory, whole vectors.
constexpr int direct_input_pitch(int taps) { return (taps + 3) / 4 * 4; }

struct DirectInputPlan {
  Conv2dProblem d;
  int across, down;      // threads of a block
  int tiles_w, tiles_h;  // of an image
  int width, values;     // of dy in shared memory: of a row, and in all
  FastDivisor by_across, by_tiles, by_tiles_w, by_width;

  explicit DirectInputPlan(const Conv2dProblem& problem) : d(problem) {
    const int columns = ceil_div(d.w, kInputPatchColumns), rows = ceil_div(d.h, kInputPatchRows);
    tiles_w = ceil_div(columns, 32);
    across = ceil_div(columns, tiles_w);
    width = across * kInputPatchColumns + 4;
    const int halo = d.r - 1, most_values = kInputFetches * kInputPatchThreads;
    const int most = std::max(
        1, std::min(kInputPatchThreads / across, (most_values / width - halo) / kInputPatchRows));
    tiles_h = ceil_div(rows, most);
    down = ceil_div(rows, tiles_h);
    values = width * (down * kInputPatchRows + halo);
    by_across = FastDivisor(across), by_tiles = FastDivisor(tiles_w * tiles_h);
    by_tiles_w = FastDivisor(tiles_w), by_width = FastDivisor(width);
  }
  int blocks() const { return d.n * tiles_h * tiles_w; }
  /// Enough that none of them brings more than kInputFetches values of dy, or more than one weight.
  int threads() const {
    const int fetching = std::max(ceil_div(values, kInputFetches), d.c * d.r * d.s);
    return round_up(std::max(across * down, fetching), 32);
  }
  size_t shared_bytes() const {
    return 2 * sizeof(float) * (round_up(values, 4) + direct_input_pitch(d.c * d.r * d.s));
  }
};

template <class Shape>
__global__ void __launch_bounds__(kInputPatchThreads, 2)
    conv2d_direct_input_kernel(const __grid_constant__ DirectInputPlan g, const float* dy,
                               const float* w, float* __restrict__ dx) {
  constexpr int kC = Shape::c, kR = Shape::r, kRows = kInputPatchRows, kRun = kInputPatchColumns;
  constexpr int kPitch = direct_input_pitch(Shape::taps), kWindow = kRun + kR - 1;
  extern __shared__ __align__(16) float direct_input_memory[];
  const int stage_floats = ((g.values + 3) & ~3) + kPitch;  // dy, and the weights behind it
  const Conv2dProblem& d = g.d;
  const int tid = threadIdx.x, threads = blockDim.x;
  int n, tile, tile_h, tile_w, thread_h, thread_w;
  g.by_tiles.divmod(blockIdx.x, n, tile);
  g.by_tiles_w.divmod(tile, tile_h, tile_w);
  g.by_across.divmod(tid, thread_h, thread_w);
  const int first_h = tile_h * g.down * kRows, first_w = tile_w * g.across * kRun;

  // What this thread brings of a filter, as places in its plane; -1 is a zero, -2 nothing.
  int from[kInputFetches];
#pragma unroll
  for (int i = 0; i < kInputFetches; ++i) {
    const int value = tid + i * threads;
    int row, column;
    g.by_width.divmod(value, row, column);
    const int p = first_h + d.pad_h - (kR - 1) + row, q = first_w + d.pad_w - (kR - 1) + column;
    const bool inside = uint32_t(p) < uint32_t(d.p) && uint32_t(q) < uint32_t(d.q);
    from[i] = value >= g.values ? -2 : inside ? p * d.q + q : -1;
  }
  float fetched[kInputFetches], weight = 0;
  const float* plane = dy + size_t(n) * d.k * d.p * d.q;
  const auto fetch = [&](int k) {
    if (k >= d.k) return;
#pragma unroll
    for (int i = 0; i < kInputFetches; ++i) fetched[i] = from[i] >= 0 ? plane[from[i]] : 0.f;
    if (tid < Shape::taps) weight = w[k * Shape::taps + tid];
    plane += d.p * d.q;
  };
  const auto keep = [&](int k) {
    float* const stage = direct_input_memory + k % 2 * stage_floats;
#pragma unroll
    for (int i = 0; i < kInputFetches; ++i)
      if (from[i] != -2) stage[tid + i * threads] = fetched[i];
    if (tid < Shape::taps) stage[stage_floats - kPitch + tid] = weight;
  };

  wait_for_primary();
  float sums[kC][kRows][kRun] = {};
  fetch(0);
  keep(0);
  __syncthreads();
  const int mine = min(thread_h, g.down - 1) * kRows * g.width + thread_w * kRun;
  for (int k = 0; k < d.k; ++k) {
    fetch(k + 1);
    const float* const stage = direct_input_memory + k % 2 * stage_floats;
    float weights[kPitch];
#pragma unroll
    for (int i = 0; i < kPitch; i += 4)
      *reinterpret_cast<float4*>(weights + i) =
          *reinterpret_cast<const float4*>(stage + stage_floats - kPitch + i);
#pragma unroll
    for (int i = 0; i < kRows + kR - 1; ++i) {
      float window[8];
      const float* const row = stage + mine + i * g.width;
      *reinterpret_cast<float4*>(window) = *reinterpret_cast<const float4*>(row);
      *reinterpret_cast<float4*>(window + 4) = *reinterpret_cast<const float4*>(row + 4);
      static_assert(kWindow <= 8);
#pragma unroll
      for (int a = 0; a < kRows; ++a) {
        const int r = a + kR - 1 - i;
        if (r < 0 || r >= kR) continue;
#pragma unroll
        for (int c = 0; c < kC; ++c)
#pragma unroll
          for (int s = 0; s < kR; ++s)
#pragma unroll
            for (int b = 0; b < kRun; ++b)
              sums[c][a][b] =
                  fmaf(window[b + kR - 1 - s], weights[(c * kR + r) * kR + s], sums[c][a][b]);
      }
    }
    if (k + 1 < d.k) keep(k + 1);
    __syncthreads();
  }

  if (thread_h >= g.down) return;
  const int h0 = first_h + thread_h * kRows, w0 = first_w + thread_w * kRun;
#pragma unroll
  for (int c = 0; c < kC; ++c)
#pragma unroll
    for (int a = 0; a < kRows; ++a) {
      if (h0 + a >= d.h) continue;
      float* const to = dx + (size_t(n * kC + c) * d.h + h0 + a) * d.w + w0;
      if (d.w % kRun == 0 && w0 < d.w) {
        store_word(
            to, Vector<float, kRun>{{sums[c][a][0], sums[c][a][1], sums[c][a][2], sums[c][a][3]}});
      } else {
#pragma unroll
        for (int b = 0; b < kRun; ++b)
          if (w0 + b < d.w) to[b] = sums[c][a][b];
      }
    }
}

/// What backward_data on float32 units cannot do. From bfloat16 it took 261 us where from float32 it takes 92
/// (8x3x224x224 -> 64 on an H200).
inline std::optional<std::string> direct_input_unsupported(const Conv2dProblem& d) {
  if (auto reason = direct_unsupported(d, Pass::kBackwardData)) return reason;
  if (d.layout != Layout::kNCHW) return "takes nchw only in this pass";
  if (d.dtype != DType::kFloat32)
    return "takes float32 storage only in this pass where the stride is 1";
  return {};
}

/// REQUIRES: direct_input_unsupported() has no reason.
class DirectInput {
 public:
  explicit DirectInput(const Conv2dProblem& problem) : plan_(problem) {}

  std::string text() const {
    return std::to_string(plan_.down * kInputPatchRows) + "x" +
           std::to_string(plan_.across * kInputPatchColumns) + " positions a block";
  }
  void run(const float* dy, const float* w, float* dx, cudaStream_t stream) const {
    with_direct_shape(plan_.d, [&]<class Shape>(Shape) {
      launch_following({dim3(plan_.blocks()), dim3(plan_.threads()), plan_.shared_bytes(), stream},
                       conv2d_direct_input_kernel<Shape>, plan_, dy, w, dx);
    });
  }

 private:
  const DirectInputPlan plan_;
};

}  // namespace duet
