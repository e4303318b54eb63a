// batch_norm custom_cluster: one launch a pass, reading every value once: the
//           blocks of a cluster share the channels of one block of custom_two_pass, keep their
//           values in registers, and join their moments through each other's shared memory.
// Mapping:  cluster = 1 channel (NHWC, N x F: up to 128) by 1 to 8 blocks of 256 threads; a thread
//           keeps up to 8 vectors of 16 bytes (16 of 1 value) in registers, and more in shared memory, which
//           it shares with nobody, where 8 blocks have not registers enough.
// Traffic:  x, y and in backward dy and dx once. What is more than a channel of 8 times 212 KiB and
//           256 KiB in registers (less where H*W is no multiple of 4), x and dy together in
//           backward, is read again.
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
  Kept<F> kept;
  float var[F::kChannels];
  const Statistics<F> s = statistics_of_cluster<F>(walk, part, t.x, kept, var);
  keep<F>(walk, t, s, var);
  const Affine<F> affine = affine_of<F>(walk, t, s);
  const auto write = [&](const auto& offsets, const auto& x) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (offsets.at[i] >= 0) store(t.y + offsets.at[i], normalised<F>(x[i], affine));
    }
  };
  write(part.template offsets<kCount>(walk, 0, kCount), kept);
  part.template shelved<kCount>(
      walk, kCount, [&](int j, const auto& offsets) { write(offsets, ShelfBatch<F>{j}); });
  part.template others<kCount>(
      walk, kCount, [&](const auto& offsets) { write(offsets, Kept<F>(t.x, offsets.at)); });
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
        forward_(cluster_walk(problem, widest_vector_length(problem), 1)),
        backward_(cluster_walk(problem, widest_vector_length(problem), 2)) {}

  std::string detail(Pass pass) const override {
    const Walk& walk = pass == Pass::kForward ? forward_ : backward_;
    std::string text = form_text(problem_, widest_vector_length(problem_)) + ", clusters of " +
                       std::to_string(walk.splits);
    if (walk.shelf > 0) {
      text += ", " + std::to_string(walk.shelf_bytes / 1024) + " KiB of shared memory a block";
    }
    return text;
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    with_widest_form<F>(problem_, [&](auto form) {
      queue(run, forward_, batch_norm_forward_cluster_kernel<decltype(form)>, t);
    });
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    with_widest_form<F>(problem_, [&](auto form) {
      queue(run, backward_, batch_norm_backward_cluster_kernel<decltype(form)>, t);
    });
  }

 private:
  template <class T>
  void queue(const Run& run, const Walk& walk, void (*kernel)(Walk, T), const T& arguments) const {
    launch_clusters(walk, run.stream(), kernel, walk, arguments);
  }

  const Walk forward_, backward_;
};

/// Of images in planes where registers and shelves keep all that the pass needs; else where registers keep what
/// forward does.
bool preferred(const BatchNormProblem& problem, Pass pass, size_t) {
  const int v = widest_vector_length(problem);
  const Walk walk = walk_of(problem, false, v);
  int vectors = vectors_kept(v);
  if (in_planes(problem) && most_blocks() == kMostBlocks) {
    const int tensors = pass == Pass::kForward ? 1 : 2;
    vectors = vectors / tensors + most_shelved(problem, v, tensors);
  }
  return walk.units <= int64_t{most_blocks()} * units_at_once(walk) * vectors;
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_cluster() {
  auto entry =
      impl_entry<BatchNormCustomCluster>("custom_cluster", batch_norm::unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
