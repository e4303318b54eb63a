// batch_norm2d_relu_pool custom_cluster: one launch a pass, reading every value once, as batch_norm's
//           custom_cluster: threads keep their windows in registers while the blocks of a cluster add
//           their sums, and pool them from there.
// Mapping:  cluster = 1 channel (NHWC: of up to 128) by 1 to 8 blocks of 256 threads; a thread has the
//           pixels that it has in custom_welford, and keeps 32 of them in forward, in backward 16
//           and their dy.
// Traffic:  x, y and in backward dy and dx once. What is more than 65536 values a channel (in backward
//           32768) is read again for each sum. Behind a convolution that leaves the moments of x forward
//           has no sums, and no clusters (batch_norm_given.cuh).
// Limits:   as custom_welford. Below compute capability 9.0 a block has the channels alone.
#include "layers/batch_norm/batch_norm_cluster.cuh"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool_kernels.cuh"

namespace duet {
namespace {

using namespace batch_norm_pool;

/// Units that a thread keeps in forward, of 4 V pixels each; in backward half as many.
template <class F>
constexpr int kKept = 8 / F::V;

/// The thread's units: every so many from its first, so that the neighbours of a warp read
/// neighbours in memory.
template <class F>
struct Part {
  const Windows& t;
  int first, step, channel;

  __device__ __forceinline__ explicit Part(const Windows& t)
      : t(t),
        first(static_cast<int>(blockIdx.y * kThreads + threadIdx.x) / t.walk.lanes),
        step(t.walk.splits * kThreads / t.walk.lanes),
        channel(first_channel<F>(t.walk)) {}

  /// Calls kept(i, place) for the first `count` units and again(place) for the others.
  template <int count, class Kept, class Again>
  __device__ __forceinline__ void for_each(Kept kept, Again again) const {
    if (channel >= t.walk.channels) return;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int unit = first + i * step;
      if (unit < t.walk.units) kept(i, place_of<F>(t, channel, unit));
    }
    for (int unit = first + count * step; unit < t.walk.units; unit += step) {
      again(place_of<F>(t, channel, unit));
    }
  }
};

/// Calls visit(value, channel) for every pixel of a unit that exists.
template <class F, class Visit>
__device__ __forceinline__ void for_each_pixel(const Patch<F>& x, const Place& at, Visit visit) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if ((j % 2 == 1 && !at.right) || (j >= 2 && !at.below)) continue;
#pragma unroll
    for (int k = 0; k < F::V; ++k) visit(x.v[j].v[k], F::channel_of(k));
  }
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_forward_cluster_kernel(Windows t, Forward<typename F::Value> f) {
  wait_for_primary();
  constexpr int kCount = kKept<F>;
  __shared__ ClusterSum<F, float> total, total_squares;
  const auto plus = [](float a, float b) { return a + b; };
  const Walk& walk = t.walk;
  const Part<F> part(t);
  Patch<F> kept[kCount];

  float sums[F::kChannels] = {};
  const auto add_sum = [&](const Patch<F>& x, const Place& at) {
    for_each_pixel<F>(x, at, [&](float value, int i) { sums[i] += value; });
  };
  part.template for_each<kCount>(
      [&](int i, const Place& at) { kept[i] = load_patch<F>(t, f.x, at); },
      [&](const Place& at) { add_sum(load_patch<F>(t, f.x, at), at); });
  part.template for_each<kCount>([&](int i, const Place& at) { add_sum(kept[i], at); },
                                 [](const Place&) {});
  total(walk, sums, plus);
  Statistics<F> s;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) s.mean[k] = sums[k] / walk.count;

  float squares[F::kChannels] = {}, var[F::kChannels];
  const auto add_squares = [&](const Patch<F>& x, const Place& at) {
    for_each_pixel<F>(x, at, [&](float value, int i) {
      squares[i] += (value - s.mean[i]) * (value - s.mean[i]);
    });
  };
  part.template for_each<kCount>(
      [&](int i, const Place& at) { add_squares(kept[i], at); },
      [&](const Place& at) { add_squares(load_patch<F>(t, f.x, at), at); });
  total_squares(walk, squares, plus);
  done_reading(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    var[k] = squares[k] / walk.count;
    s.inverse[k] = 1.0f / sqrtf(var[k] + walk.eps);
  }

  keep<F>(walk, f, s, var);
  const Affine<F> affine = affine_of<F>(walk, f, s);
  const auto write = [&](const Patch<F>& x, const Place& at) {
    if (at.whole()) store(f.y + at.y, largest_values<F>(x, affine));
  };
  part.template for_each<kCount>([&](int i, const Place& at) { write(kept[i], at); },
                                 [&](const Place& at) {
                                   if (at.whole()) write(load_patch<F>(t, f.x, at), at);
                                 });
  wait_for_readers(walk);
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_pool_backward_cluster_kernel(Windows t, Backward<typename F::Value> b) {
  wait_for_primary();
  constexpr int kCount = kKept<F> / 2;
  __shared__ ClusterSum<F, Sums> total;
  const Walk& walk = t.walk;
  const Part<F> part(t);
  Patch<F> x[kCount];
  Vector<float, F::V> dy[kCount];
  part.template for_each<kCount>(
      [&](int i, const Place& at) {
        x[i] = load_patch<F>(t, b.x, at);
        dy[i] = load_gradient<F>(b.dy, at);
      },
      [](const Place&) {});

  const Statistics<F> s = statistics_of_backward<F>(walk, b);
  const Affine<F> affine = affine_of<F>(walk, b, s);
  Sums sums[F::kChannels] = {};
  part.template for_each<kCount>(
      [&](int i, const Place&) { add_windows<F>(x[i], dy[i], s, affine, sums); },
      [&](const Place& at) {
        if (at.whole()) {
          add_windows<F>(load_patch<F>(t, b.x, at), load<F::V>(b.dy + at.y), s, affine, sums);
        }
      });
  total(walk, sums, add);
  done_reading(walk);
  keep_gradients<F>(walk, b, sums);
  if (b.dx != nullptr) {
    const InputGradient<F> gradient(walk, b.training, s, affine, sums);
    part.template for_each<kCount>(
        [&](int i, const Place& at) {
          write_input_gradients<F>(t, at, x[i], dy[i], gradient, b.dx);
        },
        [&](const Place& at) {
          write_input_gradients<F>(t, at, load_patch<F>(t, b.x, at), load_gradient<F>(b.dy, at),
                                   gradient, b.dx);
        });
  }
  wait_for_readers(walk);
}

/// Units of all pixels, of one block.
Windows all_pixels(const Problem& problem) {
  Windows all = windows_of(problem, true);
  all.walk.splits = 1;
  return all;
}
/// Units that a block keeps in backward, half as many as in forward.
int units_kept(const Problem& problem) {
  return units_at_once(walk_of(problem.norm, false)) * 4 / window_vector(problem);
}

class BatchNormReluPoolCustomCluster : public CustomBlock<BatchNormReluPoolCustomCluster> {
 public:
  explicit BatchNormReluPoolCustomCluster(const Problem& problem)
      : CustomBlock(problem), forward_(all_pixels(problem)), backward_(forward_) {
    forward_.walk = in_clusters(forward_.walk, 2 * units_kept(problem));
    backward_.walk = in_clusters(backward_.walk, units_kept(problem));
  }

  std::string detail(Pass pass) const override {
    const Walk& walk = (pass == Pass::kForward ? forward_ : backward_).walk;
    return form_text() + ", clusters of " + std::to_string(walk.splits);
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& f) const {
    launch_clusters(forward_.walk, run.stream(), batch_norm_pool_forward_cluster_kernel<F>,
                    forward_, f);
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& b) const {
    launch_clusters(backward_.walk, run.stream(), batch_norm_pool_backward_cluster_kernel<F>,
                    backward_, b);
  }

 private:
  Windows forward_, backward_;
};

/// Where a cluster keeps all that backward needs, as batch_norm's is.
bool preferred(const Problem& problem, Pass, size_t) {
  const Pool2dProblem& pool = problem.pool;
  const int64_t windows = int64_t{pool.n} * ((pool.h + 1) / 2) * ((pool.w + 1) / 2);
  const int of_unit = in_planes(problem) ? window_vector(problem) : 1;
  return windows <= int64_t{most_blocks()} * units_kept(problem) * of_unit;
}

}  // namespace

ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_cluster() {
  auto entry = impl_entry<BatchNormReluPoolCustomCluster>(
      "custom_cluster", batch_norm_pool::unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
