// global_avg_pool2d custom_reduction: neighbouring threads add up neighbouring values of x.
// Mapping:  forward, NCHW: warp = 1 plane, its lanes take neighbouring pixels; of many planes of up
//           to 64 pixels block = 128 planes, copied to shared memory, where a thread adds up one;
//           NHWC: block = 1 image and up to 32 channels, a thread takes a channel of every so many
//           pixels. Backward: thread = 2 pieces of 16 bytes of dx. block = 256, but for small planes.
// Traffic:  forward x once, y once, an element at a time; backward dy once an image (through L1 and
//           L2), dx once.
// Limits:   fp32 or bf16, both layouts.
#include "device/check.h"
#include "device/launch.h"
#include "kernels/block_combine.cuh"
#include "kernels/integers.cuh"
#include "kernels/vector.cuh"
#include "layers/pool2d/pool2d.h"

namespace duet {
namespace {

constexpr int kThreads = kCombineThreads;

__device__ __forceinline__ float plus(float a, float b) { return a + b; }

// region plane
template <class T>
__global__ void __launch_bounds__(kThreads)
    global_avg_pool2d_forward_planes_kernel(int planes, int pixels, const T* x, T* y) {
  wait_for_primary();
  const int plane = blockIdx.x * kCombineWarps + threadIdx.x / 32;
  if (plane >= planes) return;  // a whole warp
  const T* from = x + static_cast<int64_t>(plane) * pixels;
  float sum = 0.0f;
  for (int i = threadIdx.x % 32; i < pixels; i += 32) sum += from[i];
  sum = warp_combine(sum, 1, plus);
  if (threadIdx.x % 32 == 0) y[plane] = T(sum / static_cast<float>(pixels));
}
// end plane

constexpr int kSmallPixels = 64, kSmallPlanes = 128;  // of a plane; of a block, and its threads

// Fewer planes have too few blocks for the GPU, and a warp each.
bool are_small_planes(int planes, int pixels) {
  return pixels <= kSmallPixels && planes >= 64 * kSmallPlanes;
}

template <class T>
__global__ void __launch_bounds__(kSmallPlanes)
    global_avg_pool2d_forward_small_planes_kernel(int planes, int pixels, const T* x, T* y) {
  wait_for_primary();
  // region small
  constexpr int V = kWidest<T>;
  using Word = WordOf<16>;
  __shared__ alignas(16) T values[kSmallPlanes * kSmallPixels];
  const int first = blockIdx.x * kSmallPlanes;
  const int count = min(kSmallPlanes, planes - first) * pixels;
  const T* from = x + static_cast<int64_t>(first) * pixels;
#pragma unroll 8
  for (int i = threadIdx.x * V; i + V <= count; i += kSmallPlanes * V) {
    *reinterpret_cast<Word*>(values + i) = *reinterpret_cast<const Word*>(from + i);
  }
  const int rest = count / V * V + threadIdx.x;
  if (rest < count) values[rest] = from[rest];
  __syncthreads();
  const int plane = first + threadIdx.x;
  if (plane >= planes) return;
  // Planes of an even size begin in the same few banks, so each thread begins one value further.
  int at = pixels % 2 == 0 ? threadIdx.x % pixels : 0;
  float sum = 0.0f;
  for (int k = 0; k < pixels; ++k) {
    sum += Accumulator<T>(values[threadIdx.x * pixels + at]);
    at = at + 1 == pixels ? 0 : at + 1;
  }
  y[plane] = T(sum / static_cast<float>(pixels));
  // end small
}

// region channels
/// `lanes` channels a block, a power of two up to 32; the grid is images x groups of channels.
template <class T>
__global__ void __launch_bounds__(kThreads)
    global_avg_pool2d_forward_channels_kernel(int channels, int pixels, int lanes, const T* x,
                                              T* y) {
  wait_for_primary();
  const int c = blockIdx.y * lanes + threadIdx.x % lanes;
  const T* from = x + static_cast<int64_t>(blockIdx.x) * pixels * channels;
  float sum = 0.0f;
  if (c < channels) {
    for (int i = threadIdx.x / lanes; i < pixels; i += kThreads / lanes) {
      sum += from[i * channels + c];
    }
  }
  sum = block_combine(sum, lanes, plus);
  if (threadIdx.x < lanes && c < channels) {
    y[blockIdx.x * channels + c] = T(sum / static_cast<float>(pixels));
  }
}
// end channels

/// Where dy of an element of dx lies. `inner` neighbours make a row: the pixels of a plane, which have
/// one dy; in NHWC the elements of an image, whose dys are `channels` values over and over.
struct Sources {
  FastDivisor by_inner, by_channels;
  bool planes;

  explicit Sources(const Pool2dProblem& t)
      : by_inner(t.layout == Layout::kNCHW ? t.window() : t.window() * t.c),
        by_channels(t.c),
        planes(t.layout == Layout::kNCHW) {}
  /// How many neighbours have one dy, or neighbouring ones, wherever they begin at a multiple of it.
  int run() const { return static_cast<int>(planes ? by_inner.divisor : by_channels.divisor); }

  __device__ __forceinline__ int of(int i) const {
    int row, at, channel;
    by_inner.divmod(i, row, at);
    if (planes) return row;
    int pixel;
    by_channels.divmod(at, pixel, channel);
    return row * static_cast<int>(by_channels.divisor) + channel;
  }
};

constexpr int kBackwardPieces = 2;  // of a thread

/// `whole`: the values of a piece have one source, or neighbouring ones.
template <bool whole, class T>
__global__ void __launch_bounds__(kThreads)
    global_avg_pool2d_backward_kernel(Sources sources, int count, float share, const T* dy, T* dx) {
  wait_for_primary();
  constexpr int V = kWidest<T>;
  const unsigned first = (blockIdx.x * kBackwardPieces * kThreads + threadIdx.x) * V;
#pragma unroll
  for (int piece = 0; piece < kBackwardPieces; ++piece) {
    if (first + piece * kThreads * V >= static_cast<unsigned>(count)) return;
    const int i = static_cast<int>(first) + piece * kThreads * V;
    Vector<float, V> values;
    if (whole && !sources.planes) {
      values = load<V>(dy + sources.of(i));
    } else {
      const float same = whole ? float{dy[sources.of(i)]} : 0.0f;
#pragma unroll
      for (int k = 0; k < V; ++k) {
        values.v[k] = whole ? same : float{dy[sources.of(min(i + k, count - 1))]};
      }
    }
#pragma unroll
    for (float& value : values.v) value *= share;
    if (whole || i <= count - V) {
      store(dx + i, values);
    } else {
      for (int k = 0; i + k < count; ++k) dx[i + k] = T(values.v[k]);
    }
  }
}

template <class T>
class GlobalAvgPool2dCustomReduction : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    if (problem_.layout == Layout::kNCHW || problem_.c == 1) {
      const int planes = problem_.n * problem_.c;
      if (are_small_planes(planes, problem_.window())) {
        launch_following({blocks_of(planes, kSmallPlanes), kSmallPlanes, 0, run.stream()},
                         global_avg_pool2d_forward_small_planes_kernel<T>, planes,
                         problem_.window(), x.data<T>(), y.data<T>());
        return;
      }
      launch_following({blocks_of(planes, kCombineWarps), kThreads, 0, run.stream()},
                       global_avg_pool2d_forward_planes_kernel<T>, planes, problem_.window(),
                       x.data<T>(), y.data<T>());
    } else {
      int lanes = 1;
      while (lanes < 32 && lanes < problem_.c) lanes *= 2;
      const dim3 grid(static_cast<unsigned>(problem_.n), blocks_of(problem_.c, lanes));
      launch_following({grid, kThreads, 0, run.stream()},
                       global_avg_pool2d_forward_channels_kernel<T>, problem_.c, problem_.window(),
                       lanes, x.data<T>(), y.data<T>());
    }
  }

  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    const auto count = static_cast<int>(dx.elements());
    const Sources sources(problem_);
    const bool whole = sources.run() % kWidest<T> == 0;
    launch_following(
        {blocks_of(count, kBackwardPieces * kThreads * kWidest<T>), kThreads, 0, run.stream()},
        whole ? global_avg_pool2d_backward_kernel<true, T>
              : global_avg_pool2d_backward_kernel<false, T>,
        sources, count, 1.0f / static_cast<float>(problem_.window()), dy.data<T>(), dx.data<T>());
  }

 private:
  static unsigned blocks_of(int items, int each) {
    return (static_cast<unsigned>(items) + static_cast<unsigned>(each) - 1) /
           static_cast<unsigned>(each);
  }
};

/// Groups of 32 channels make a grid's y.
std::optional<std::string> unsupported(const Pool2dProblem& problem, Pass) {
  constexpr int kMostChannels = 32 * 65535;
  if (problem.c <= kMostChannels) return {};
  return "takes at most " + std::to_string(kMostChannels) + " channels";
}

}  // namespace

ImplEntry<Pool2dProblem> global_avg_pool2d_custom_reduction() {
  return gpu_entry<GlobalAvgPool2dCustomReduction>("custom_reduction", unsupported);
}

}  // namespace duet
