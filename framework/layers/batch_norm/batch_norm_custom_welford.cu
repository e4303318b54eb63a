// batch_norm custom_welford: mean and variance in one look at x, shared by many blocks, and a second
//           look that follows so soon that it finds x in the L2 cache (kernels/turns.cuh). B. P.
//           Welford: Note on a Method for Calculating Corrected Sums of Squares and Products, 1962;
//           parts are joined by T. F. Chan, G. H. Golub, R. J. LeVeque: Updating Formulae and a
//           Pairwise Algorithm for Computing Sample Variances, 1979.
// Mapping:  NCHW: block = a look at a split of 1 channel, 256 threads; a thread has 8 vectors of 4 values (16 of 1
//           where H*W is no multiple of 4) under way, in backward half as many of x and of dy. The block that is
//           last to leave its part of a channel's sums in the workspace joins all parts. NHWC, N x F: block = both
//           looks at a split of 128 to 512 bytes of channels, 2 blocks a multiprocessor; what it read first stays
//           in its shared memory and registers (batch_norm_rows.cuh).
// Traffic:  forward x once and y once, backward x, dy and dx once, where in NCHW a few channels fit into L2, in NHWC
//           the tensors into the multiprocessors (up to 35 MB) and L2; else the rest of x and dy twice. Behind a
//           convolution that leaves the moments of x forward has no first look (batch_norm_given.cuh).
// Limits:   fp32 or bf16, both layouts, fewer than 2^31 values.
#include "layers/batch_norm/batch_norm_given.cuh"
#include "layers/batch_norm/batch_norm_rows.cuh"

namespace duet {
namespace {

using namespace batch_norm;

template <class F>
__global__ void __launch_bounds__(kThreads, kTurnBlocks)
    batch_norm_forward_welford_kernel(Walk walk, Turns turns, Forward<typename F::Value> t,
                                      Moments* partial) {
  wait_for_primary();
  walk.turn = turns.take();
  if (!walk.turn.second) return find_statistics<F>(walk, turns, t, partial);
  Affine<F> affine;
  bool open = false;
  for_each_batch<kTogether<F>, F>(walk, [&]<int count>(const int(&offsets)[count]) {
    const Batch<F, count> x(t.x, offsets);
    if (!open) {
      turns.wait(walk.group());
      affine = affine_of<F>(walk, t, kept_statistics<F>(walk, t.state));
      open = true;
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (offsets[i] >= 0) store_streaming(t.y + offsets[i], normalised<F>(x[i], affine));
    }
  });
}

template <class F>
__global__ void __launch_bounds__(kThreads, kTurnBlocks)
    batch_norm_backward_welford_kernel(Walk walk, Turns turns, Backward<typename F::Value> t,
                                       Sums* partial) {
  wait_for_primary();
  find_gradients<F>(walk, turns, t, partial,
                    [](int, const auto&, const auto&, const auto& dy) { return dy; });
}

// The same of rows, held between the looks.
template <class F>
__global__ void __launch_bounds__(kThreads, kRowBlocks)
    batch_norm_forward_rows_welford_kernel(Rows rows, Turns turns, Forward<typename F::Value> t) {
  wait_for_primary();
  normalise_rows<F>(rows, turns, t, PlainUnits<F>{rows.walk.channels});
}
template <class F>
__global__ void __launch_bounds__(kThreads, kRowBlocks)
    batch_norm_backward_rows_welford_kernel(Rows rows, Turns turns, Backward<typename F::Value> t) {
  wait_for_primary();
  find_row_gradients<F>(rows, turns, t, PlainUnits<F>{rows.walk.channels});
}

/// Images in planes.
class WelfordPlanes : public CustomOfMoments<WelfordPlanes> {
 public:
  explicit WelfordPlanes(const BatchNormProblem& problem)
      : CustomOfMoments(problem),
        forward_(walk_of_turns(problem, 1)),
        backward_(walk_of_turns(problem, 2)),
        counters_(forward_.groups),
        forward_turns_(turns_of(problem, forward_, 1, counters_)),
        backward_turns_(turns_of(problem, backward_, 2, counters_)) {}

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kForward ? moments_bytes(forward_) : sums_bytes(backward_);
  }
  std::string detail(Pass pass) const override {
    const int splits = (pass == Pass::kForward ? forward_ : backward_).splits;
    return form_text(problem_) + ", " + std::to_string(splits) +
           (splits == 1 ? " split" : " splits");
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    if constexpr (F::kPlanes) {
      queue(run, forward_turns_, batch_norm_forward_welford_kernel<F>, forward_, t,
            static_cast<Moments*>(run.workspace));
    }
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    if constexpr (F::kPlanes) {
      queue(run, t.dx ? backward_turns_ : backward_turns_.once(),
            batch_norm_backward_welford_kernel<F>, backward_, t, static_cast<Sums*>(run.workspace));
    }
  }

 private:
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

/// Images whose channels are innermost, and features.
class WelfordRows : public CustomOfMoments<WelfordRows> {
 public:
  explicit WelfordRows(const BatchNormProblem& problem)
      : CustomOfMoments(problem),
        forward_(rows_of(problem, static_cast<int>(problem.count()), 1)),
        backward_(rows_of(problem, static_cast<int>(problem.count()), 2)),
        counters_(forward_.walk.groups) {}

  size_t workspace_bytes(Pass pass) const override {
    return row_workspace_bytes(pass == Pass::kForward ? forward_ : backward_);
  }
  std::string detail(Pass pass) const override {
    return row_form_text(problem_) + ", " +
           rows_text(pass == Pass::kForward ? forward_ : backward_);
  }

  template <class F>
  void train(const Run& run, const Forward<typename F::Value>& t) const {
    if constexpr (!F::kPlanes) {
      with_row_form<F>(problem_, [&](auto form) {
        launch_rows(run, forward_, counters_, true,
                    batch_norm_forward_rows_welford_kernel<decltype(form)>, t);
      });
    }
  }
  template <class F>
  void gradients(const Run& run, const Backward<typename F::Value>& t) const {
    if constexpr (!F::kPlanes) {
      with_row_form<F>(problem_, [&](auto form) {
        launch_rows(run, backward_, counters_, t.dx != nullptr,
                    batch_norm_backward_rows_welford_kernel<decltype(form)>, t);
      });
    }
  }

 private:
  const Rows forward_, backward_;
  const TurnCounters counters_;
};

std::unique_ptr<Implementation> make(const BatchNormProblem& problem, Context&) {
  if (in_planes(problem)) return std::make_unique<WelfordPlanes>(problem);
  return std::make_unique<WelfordRows>(problem);
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_custom_welford() {
  return {"custom_welford", batch_norm::unsupported, make, false, gpu_dtypes()};
}

}  // namespace duet
