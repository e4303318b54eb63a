// batch_norm custom_cluster: the definition in one launch a pass, reading every value once: the
//           blocks of a cluster share the channels of one block of custom_two_pass, keep their
//           values in registers, and add their sums through each other's shared memory. Channels in
//           planes that are too large for that are shared by teams of blocks, which keep them in
//           shared memory and send each other their sums (batch_norm_teams.cuh).
// Mapping:  cluster = 1 channel (NHWC, N x F: up to 128) by 1 to 8 blocks of 256 threads; a thread
//           keeps up to 8 vectors of 4 values (16 of 1) in registers. Team = every so many channels,
//           one after the other, by some of 2 blocks of 256 threads a multiprocessor.
// Traffic:  x, y and in backward dy and dx once. In NHWC, and where H*W is odd, what is more of a channel than 65536
//           values (32768 there), x and dy together in backward, is read again for each sum. Behind a
//           convolution that leaves the moments of x forward has no sums (batch_norm_given.cuh).
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values. Below compute capability 9.0, which
//           has no clusters, a block has the channels alone.
#include "layers/batch_norm/batch_norm_cluster_passes.cuh"
#include "layers/batch_norm/batch_norm_given.cuh"
#include "layers/batch_norm/batch_norm_teams.cuh"

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
  const auto write = [&](int offset, const Vector<float, F::V>& x) {
    store_pairs(t.y + offset, normalised<F>(x, affine));
  };
  part.template kept<kCount>(walk, [&](int i, int offset) { write(offset, kept[i]); });
  part.template others<kCount>(
      walk, [&](int offset) { write(offset, load_constant<F::V>(t.x + offset)); });
  wait_for_readers(walk);
}

template <class F>
__global__ void __launch_bounds__(kThreads)
    batch_norm_backward_cluster_kernel(Walk walk, Backward<typename F::Value> t) {
  wait_for_primary();
  write_cluster_gradients<F>(walk, t,
                             [](int, const auto&, const auto&, const auto& dy) { return dy; });
}

// The same of planes, by teams.
template <class F>
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocks)
    batch_norm_forward_teams_kernel(Teams teams, Forward<typename F::Value> t) {
  wait_for_primary();
  normalise_by_teams<F>(teams, t, PlaneVectors<F>{teams.walk});
}
template <class F>
__global__ void __launch_bounds__(kTeamThreads, kTeamBlocks)
    batch_norm_backward_teams_kernel(Teams teams, Backward<typename F::Value> t) {
  wait_for_primary();
  find_gradients_by_teams<F>(teams, t, PlaneVectors<F>{teams.walk});
}

/// One pass, which keeps so many tensors: by clusters, or by teams where registers do not keep them.
class Cut {
 public:
  Cut(const BatchNormProblem& problem, int tensors) : walk_(cluster_walk(problem, tensors)) {
    if (cluster_keeps(problem, tensors)) return;
    teams_ = plane_teams(problem, tensors);
    if (teams_) memory_.emplace(*teams_);
  }
  std::string text() const {
    return teams_ ? teams_text(*teams_) : "clusters of " + std::to_string(walk_.splits);
  }
  bool in_teams() const { return teams_.has_value(); }

  template <class T>
  void queue(const Run& run, void (*kernel)(Walk, T), const T& arguments) const {
    launch_clusters(walk_, run.stream(), kernel, walk_, arguments);
  }
  template <class T>
  void queue(const Run& run, void (*kernel)(Teams, T), const T& arguments) const {
    launch_teams(memory_->of(*teams_), run.stream(), kernel, arguments);
  }

 private:
  const Walk walk_;
  std::optional<Teams> teams_;
  std::optional<TeamMemory> memory_;
};

class BatchNormCustomCluster : public CustomOfMoments<BatchNormCustomCluster> {
 public:
  explicit BatchNormCustomCluster(const BatchNormProblem& problem)
      : CustomOfMoments(problem), forward_(problem, 1), backward_(problem, 2) {}

  std::string detail(Pass pass) const override {
    return form_text(problem_) + ", " + (pass == Pass::kForward ? forward_ : backward_).text();
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    if (!forward_.in_teams()) return forward_.queue(run, batch_norm_forward_cluster_kernel<F>, t);
    if constexpr (F::kPlanes && F::V > 1) {
      with_plane_form<F>(problem_, [&](auto form) {
        forward_.queue(run, batch_norm_forward_teams_kernel<decltype(form)>, t);
      });
    }
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    if (!backward_.in_teams()) {
      return backward_.queue(run, batch_norm_backward_cluster_kernel<F>, t);
    }
    if constexpr (F::kPlanes && F::V > 1) {
      with_plane_form<F>(problem_, [&](auto form) {
        backward_.queue(run, batch_norm_backward_teams_kernel<decltype(form)>, t);
      });
    }
  }

 private:
  const Cut forward_, backward_;
};

/// Where registers keep all that forward needs, and by teams.
bool preferred(const BatchNormProblem& problem, Pass pass, size_t) {
  return cluster_keeps(problem, 1) || plane_teams(problem, pass == Pass::kForward ? 1 : 2);
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_cluster() {
  auto entry =
      impl_entry<BatchNormCustomCluster>("custom_cluster", batch_norm::unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
