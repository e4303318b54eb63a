// batch_norm custom_welford: mean and variance in one look at x, shared by many blocks, and a second
//           look that follows so soon that it finds x in the L2 cache (kernels/turns.cuh). B. P.
//           Welford: Note on a Method for Calculating Corrected Sums of Squares and Products, 1962;
//           parts are joined by T. F. Chan, G. H. Golub, R. J. LeVeque: Updating Formulae and a
//           Pairwise Algorithm for Computing Sample Variances, 1979.
// Mapping:  block = a look at a split of 1 channel (NHWC, N x F: of 128 bytes of channels), 256
//           threads; a thread has 8 vectors of 4 values (16 of 1 where H*W, or C, is no multiple of
//           4) under way, in backward half as many of x and of dy. The block that is last to leave
//           its part of a channel's sums in the workspace joins all parts.
// Traffic:  forward x once and y once, backward x, dy and dx once, where a few groups of channels
//           fit into L2; else up to twice what is read.
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values.
#include "layers/batch_norm/batch_norm_moments.cuh"

namespace duet {
namespace {

using namespace batch_norm;

constexpr int kBlocks = 3;  // of a multiprocessor at once; of 4 some spill registers

template <class F>
__global__ void __launch_bounds__(kThreads, kBlocks)
    batch_norm_forward_welford_kernel(Walk walk, Turns turns, Forward<typename F::Value> t,
                                      Moments* partial) {
  wait_for_primary();
  walk.turn = turns.take();
  const int group = walk.group();
  if (!walk.turn.second) {
    keep_moments<F>(walk, t.x, partial);
    if (!turns.is_last(group)) return;
    walk.turn.split = 0;  // whose block keeps what is found
    statistics_of_moments<F>(walk, partial, t);
    turns.open(group);
    return;
  }
  Affine<F> affine;
  bool open = false;
  for_each_batch<kTogether<F>, F>(walk, [&]<int count>(const int(&offsets)[count]) {
    const Batch<F, count> x(t.x, offsets);
    if (!open) {
      turns.wait(group);
      affine = affine_of<F>(walk, t, kept_statistics<F>(walk, t.state));
      open = true;
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (offsets[i] >= 0) store_streaming(t.y + offsets[i], normalised<F>(x[i], affine));
    }
  });
}

// `partial` has a row more: the sums over all splits.
template <class F>
__global__ void __launch_bounds__(kThreads, kBlocks)
    batch_norm_backward_welford_kernel(Walk walk, Turns turns, Backward<typename F::Value> t,
                                       Sums* partial) {
  wait_for_primary();
  walk.turn = turns.take();
  const int group = walk.group();
  const Statistics<F> s = statistics_of_backward<F>(walk, t);
  const Affine<F> affine = affine_of<F>(walk, t, s);
  Sums sums[F::kChannels] = {};
  constexpr int kCount = kTogether<F> / 2;
  if (!walk.turn.second) {
    for_each_batch<kCount, F>(walk, [&](const int(&offsets)[kCount]) {
      const Batch<F, kCount> x(t.x, offsets), dy(t.dy, offsets);
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (offsets[i] >= 0) add_gradients<F>(x[i], dy[i], s, affine, sums);
      }
    });
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) sums[k] = block_combine(sums[k], walk.lanes, add);
    keep_partial<F>(walk, sums, partial);
    if (!turns.is_last(group)) return;
    walk.turn.split = 0;  // whose block keeps what is found
    combine_partial<F>(walk, partial, add, sums);
    keep_gradients<F>(walk, t, sums);
    walk.turn.split = walk.splits;
    keep_partial<F>(walk, sums, partial);
    turns.open(group);
    return;
  }
  bool open = false;
  for_each_batch<kCount, F>(walk, [&](const int(&offsets)[kCount]) {
    const Batch<F, kCount> x(t.x, offsets), dy(t.dy, offsets);
    if (!open) {
      turns.wait(group);
      const int c = first_channel<F>(walk);
#pragma unroll
      for (int k = 0; k < F::kChannels && c < walk.channels; ++k) {
        sums[k] = load_partial(partial + walk.splits * walk.channels + c + k);
      }
      open = true;
    }
    const InputGradient<F> gradient(walk, t.training, s, affine, sums);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (offsets[i] >= 0) store_streaming(t.dx + offsets[i], gradient(x[i], dy[i]));
    }
  });
}

/// A turn is what the threads of a block have under way at once, `vectors` each; less where that
/// makes too few blocks.
Walk walk_of_turns(const BatchNormProblem& problem, int vectors) {
  constexpr int kMostSplits = 256;  // whose sums one block joins
  Walk walk = walk_of(problem, false);
  const int step = kThreads / walk.lanes;
  const int fill =
      std::min(ceil_div(2 * multiprocessor_count(), walk.groups), ceil_div(walk.units, 2 * step));
  cut(walk, std::min(std::max(ceil_div(walk.units, vectors * step), fill), kMostSplits));
  return walk;
}

class BatchNormCustomWelford : public CustomImpl<BatchNormCustomWelford> {
 public:
  explicit BatchNormCustomWelford(const BatchNormProblem& problem)
      : CustomImpl(problem),
        forward_(walk_of_turns(problem, together())),
        backward_(walk_of_turns(problem, together() / 2)),
        counters_(forward_.groups),
        forward_turns_(turns(forward_, 1)),
        backward_turns_(turns(backward_, 2)) {}

  size_t workspace_bytes(Pass pass) const override {
    const auto channels = static_cast<size_t>(forward_.channels);
    return pass == Pass::kForward ? channels * forward_.splits * sizeof(Moments)
                                  : channels * (backward_.splits + 1) * sizeof(Sums);
  }
  std::string detail(Pass pass) const override {
    const int splits = (pass == Pass::kForward ? forward_ : backward_).splits;
    return form_text(problem_) + ", " + std::to_string(splits) +
           (splits == 1 ? " split" : " splits");
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    queue(run, forward_turns_, batch_norm_forward_welford_kernel<F>, forward_, t,
          static_cast<Moments*>(run.workspace));
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    queue(run, t.dx ? backward_turns_ : backward_turns_.once(),
          batch_norm_backward_welford_kernel<F>, backward_, t, static_cast<Sums*>(run.workspace));
  }

 private:
  int together() const {
    return vector_length(problem_) == 4 ? kTogether<Form<float, true, 4, false>>
                                        : kTogether<Form<float, true, 1, false>>;
  }
  Turns turns(const Walk& walk, int tensors) const {
    const int64_t values = int64_t{walk.units_per_split} * walk.lanes * vector_length(problem_);
    const auto bytes = static_cast<int64_t>(size_of(problem_.dtype));
    return Turns(walk.groups, walk.splits, values * bytes * tensors, counters_.get());
  }
  template <class T, class Partial>
  void queue(const Run& run, const Turns& turns, void (*kernel)(Walk, Turns, T, Partial*),
             const Walk& walk, const T& arguments, Partial* partial) const {
    launch_following({turns.blocks(), kThreads, 0, run.stream()}, kernel, walk, turns, arguments,
                     partial);
  }

  const Walk forward_, backward_;
  const TurnCounters counters_;
  const Turns forward_turns_, backward_turns_;
};

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_welford() {
  return impl_entry<BatchNormCustomWelford>("custom_welford", batch_norm::unsupported,
                                            gpu_dtypes());
}

}  // namespace duet
