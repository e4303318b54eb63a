// batch_norm custom_cluster: the definition in one launch a pass, reading every value once: the
//           blocks of a cluster share the channels of one block of custom_two_pass, keep their
//           values in registers, and add their sums through each other's shared memory.
// Mapping:  cluster = 1 channel (NHWC, N x F: up to 128) by 1 to 8 blocks of 256 threads; a thread
//           keeps up to 8 vectors of 4 values (16 of 1).
// Traffic:  x, y and in backward dy and dx once. What is more than 65536 values a channel (32768
//           where H*W is no multiple of 4; in backward half as many) is read again for each sum.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values. Below compute capability 9.0, which
//           has no clusters, a block has the channels alone.
#include "layers/batch_norm/batch_norm_cluster.cuh"

namespace duet {
namespace {

using namespace batch_norm;

/// Vectors that a thread keeps of x; in backward it keeps half as many of x and of dy.
template <class F>
constexpr int kKept = F::V == 4 ? 8 : 16;

/// The thread's part of its channels: it has every so many vectors from its first, so that the
/// neighbours of a warp read neighbours in memory.
template <class F>
struct Part {
  int first, step;  // units
  int channel;
  bool inside;  // the channel exists

  __device__ __forceinline__ explicit Part(const Walk& walk)
      : first(static_cast<int>(blockIdx.y * kThreads + threadIdx.x) / walk.lanes),
        step(walk.splits * kThreads / walk.lanes),
        channel(first_channel<F>(walk)),
        inside(channel < walk.channels) {}

  __device__ __forceinline__ int offset(const Walk& walk, int unit) const {
    if constexpr (!F::kPlanes) return unit * walk.channels + channel;
    const int plane = unit / walk.vectors;
    return (plane * walk.channels + channel) * walk.inner + (unit - plane * walk.vectors) * F::V;
  }

  /// Calls kept(i, offset) for the first `count` vectors and again(offset) for the others.
  template <int count, class Kept, class Again>
  __device__ __forceinline__ void for_each(const Walk& walk, Kept kept, Again again) const {
    if (!inside) return;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const int unit = first + i * step;
      if (unit < walk.units) kept(i, offset(walk, unit));
    }
    for (int unit = first + count * step; unit < walk.units; unit += step) {
      again(offset(walk, unit));
    }
  }
};

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_forward_cluster_kernel(Walk walk, Forward<typename F::Value> t) {
  wait_for_primary();
  constexpr int kCount = kKept<F>;
  using Values = Vector<float, F::V>;
  __shared__ ClusterSum<F, float> total, total_squares;
  const auto plus = [](float a, float b) { return a + b; };
  const Part<F> part(walk);
  Values kept[kCount];

  float sums[F::kChannels] = {};
  const auto add_sum = [&](const Values& x) {
#pragma unroll
    for (int k = 0; k < F::V; ++k) sums[F::channel_of(k)] += x.v[k];
  };
  // region keep
  part.template for_each<kCount>(
      walk, [&](int i, int offset) { kept[i] = load<F::V>(t.x + offset); },
      [&](int offset) { add_sum(load<F::V>(t.x + offset)); });
  part.template for_each<kCount>(
      walk, [&](int i, int) { add_sum(kept[i]); }, [](int) {});
  // end keep
  total(walk, sums, plus);
  Statistics<F> s;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) s.mean[k] = sums[k] / walk.count;

  float squares[F::kChannels] = {}, var[F::kChannels];
  const auto add_squares = [&](const Values& x) {
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const float difference = x.v[k] - s.mean[F::channel_of(k)];
      squares[F::channel_of(k)] += difference * difference;
    }
  };
  part.template for_each<kCount>(
      walk, [&](int i, int) { add_squares(kept[i]); },
      [&](int offset) { add_squares(load<F::V>(t.x + offset)); });
  total_squares(walk, squares, plus);
  done_reading(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    var[k] = squares[k] / walk.count;
    s.inverse[k] = 1.0f / sqrtf(var[k] + walk.eps);
  }

  keep<F>(walk, t, s, var);
  const Affine<F> affine = affine_of<F>(walk, t, s);
  part.template for_each<kCount>(
      walk, [&](int i, int offset) { store(t.y + offset, normalised<F>(kept[i], affine)); },
      [&](int offset) { store(t.y + offset, normalised<F>(load<F::V>(t.x + offset), affine)); });
  wait_for_readers(walk);
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_backward_cluster_kernel(Walk walk, Backward<typename F::Value> t) {
  wait_for_primary();
  constexpr int kCount = kKept<F> / 2;
  using Values = Vector<float, F::V>;
  __shared__ ClusterSum<F, Sums> total;
  const Part<F> part(walk);
  Values x[kCount], dy[kCount];
  part.template for_each<kCount>(
      walk,
      [&](int i, int offset) {
        x[i] = load<F::V>(t.x + offset);
        dy[i] = load<F::V>(t.dy + offset);
      },
      [](int) {});

  const auto s = statistics_of_backward<F>(walk, t);
  const Affine<F> affine = affine_of<F>(walk, t, s);
  Sums sums[F::kChannels];
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) sums[k] = {0.0f, 0.0f};
  part.template for_each<kCount>(
      walk, [&](int i, int) { add_gradients<F>(x[i], dy[i], s, affine, sums); },
      [&](int offset) {
        add_gradients<F>(load<F::V>(t.x + offset), load<F::V>(t.dy + offset), s, affine, sums);
      });
  total(walk, sums, add);
  done_reading(walk);
  const InputGradient<F> gradient(walk, t.training, s, affine, sums);
  keep_gradients<F>(walk, t, sums);
  if (t.dx != nullptr) {
    part.template for_each<kCount>(
        walk, [&](int i, int offset) { store(t.dx + offset, gradient(x[i], dy[i])); },
        [&](int offset) {
          store(t.dx + offset, gradient(load<F::V>(t.x + offset), load<F::V>(t.dy + offset)));
        });
  }
  wait_for_readers(walk);
}

/// Units that a block keeps in backward, half as many as in forward.
int units_kept(const BatchNormProblem& problem) {
  const int of_thread = vector_length(problem) == 4 ? kKept<Form<float, true, 4, false>>
                                                    : kKept<Form<float, true, 1, false>>;
  return units_at_once(walk_of(problem, false)) * of_thread / 2;
}

class BatchNormCustomCluster : public CustomImpl<BatchNormCustomCluster> {
 public:
  explicit BatchNormCustomCluster(const BatchNormProblem& problem)
      : CustomImpl(problem),
        forward_(in_clusters(walk_of(problem, false), 2 * units_kept(problem))),
        backward_(in_clusters(walk_of(problem, false), units_kept(problem))) {}

  std::string detail(Pass pass) const override {
    const Walk& walk = pass == Pass::kForward ? forward_ : backward_;
    return form_text(problem_) + ", clusters of " + std::to_string(walk.splits);
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    queue(run, forward_, batch_norm_forward_cluster_kernel<F>, t);
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    queue(run, backward_, batch_norm_backward_cluster_kernel<F>, t);
  }

 private:
  template <class T>
  void queue(const Run& run, const Walk& walk, void (*kernel)(Walk, T), const T& arguments) const {
    launch_clusters(walk, run.stream(), kernel, walk, arguments);
  }

  const Walk forward_, backward_;
};

/// Where a cluster keeps all that backward needs.
bool preferred(const BatchNormProblem& problem, Pass, size_t) {
  const Walk walk = walk_of(problem, false);
  return walk.units <= most_blocks() * units_kept(problem);
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_cluster() {
  auto entry =
      impl_entry<BatchNormCustomCluster>("custom_cluster", batch_norm::unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
