// batch_norm custom_cluster: the definition in one launch a pass, reading every value once: the
//           blocks of a cluster share the channels of one block of custom_two_pass, keep their
//           values in registers, and add their sums through each other's shared memory.
// Mapping:  cluster = 1 channel (NHWC, N x F: up to 128) by 1 to 8 blocks of 256 threads; a thread
//           keeps up to 8 vectors of 4 values (16 of 1) in registers, and more in shared memory, which
//           it shares with nobody, where 8 blocks have not registers enough.
// Traffic:  x, y and in backward dy and dx once. What is more than a channel of 8 times 216 KiB and
//           65536 values in registers (32768 where H*W is no multiple of 4), x and dy together in
//           backward, is read again for each sum. Behind a convolution that leaves the moments of x
//           forward has no sums, and no clusters (batch_norm_given.cuh).
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values. Below compute capability 9.0, which
//           has no clusters, a block has the channels alone.
#include "layers/batch_norm/batch_norm_cluster_passes.cuh"
#include "layers/batch_norm/batch_norm_given.cuh"

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
    store(t.y + offset, normalised<F>(x, affine));
  };
  part.template kept<kCount>(walk, [&](int i, int offset) { write(offset, kept[i]); });
  part.template shelved<kCount>(walk, [&](int i, int offset) { write(offset, Shelf<F>::get(i)); });
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

class BatchNormCustomCluster : public CustomOfMoments<BatchNormCustomCluster> {
 public:
  explicit BatchNormCustomCluster(const BatchNormProblem& problem)
      : CustomOfMoments(problem),
        forward_(cluster_walk(problem, 1)),
        backward_(cluster_walk(problem, 2)) {}

  std::string detail(Pass pass) const override {
    const Walk& walk = pass == Pass::kForward ? forward_ : backward_;
    std::string text = form_text(problem_) + ", clusters of " + std::to_string(walk.splits);
    if (walk.shelf > 0) {
      text += ", " + std::to_string(walk.shelf_bytes / 1024) + " KiB of shared memory a block";
    }
    return text;
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

/// Of images in planes of 4 pixels at a time where registers and shelves keep all that the pass needs (64x64x56x56 on an H200 39.1 and 60.2 us,
/// forward and backward, custom_welford 50.0 and 62.6; with 32 channels of 128x64x64, of which a part is read again, 67.0 and
/// 149, custom_welford 60.1 and 80.2); else where registers keep what forward needs.
bool preferred(const BatchNormProblem& problem, Pass pass, size_t) {
  int units = units_kept(problem, 1);
  if (in_planes(problem) && vector_length(problem) > 1 && most_blocks() == kMostBlocks) {
    const int tensors = pass == Pass::kForward ? 1 : 2;
    units = kThreads * (vectors_kept(problem, tensors) + most_shelved(problem, tensors));
  }
  return walk_of(problem, false).units <= most_blocks() * units;
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_cluster() {
  auto entry =
      impl_entry<BatchNormCustomCluster>("custom_cluster", batch_norm::unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
