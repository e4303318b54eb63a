// batch_norm custom_cluster: the definition in one launch a pass, reading every value once: the
//           blocks of a cluster share the channels of one block of custom_two_pass, keep their
//           values in registers, and add their sums through each other's shared memory.
// Mapping:  cluster = 1 channel (NHWC, N x F: up to 128) by 1 to 8 blocks of 256 threads; a thread
//           keeps up to 8 vectors of 4 values (16 of 1).
// Traffic:  x, y and in backward dy and dx once. What is more than 65536 values a channel (32768
//           where H*W is no multiple of 4; in backward half as many) is read again for each sum.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values. Below compute capability 9.0, which
//           has no clusters, a block has the channels alone.
#include "layers/batch_norm/batch_norm_cluster_passes.cuh"

namespace duet {
namespace {

using namespace batch_norm;

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_forward_cluster_kernel(Walk walk, Forward<typename F::Value> t) {
  wait_for_primary();
  constexpr int kCount = kKept<F>;
  const Part<F> part(walk);
  Vector<float, F::V> kept[kCount];
  float var[F::kChannels];
  const Statistics<F> s = statistics_of_cluster<F>(walk, part, t.x, kept, var);
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
  write_cluster_gradients<F>(walk, t,
                             [](int, const auto&, const auto&, const auto& dy) { return dy; });
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
