// conv2d custom_winograd: F(2x2, 3x3): 16 multiplications for the 36 of a 2x2 tile of outputs.
//           backward_data sums the overlapping patches of an image where its tiles fit one block,
//           else it is a forward pass over dy with the filters turned.
// Mapping:  block = 256 threads, thread = 8x16 (or 9x16) accumulators; forward: 16 points x 32 (or
//           36) tiles x 64 filters, or 32 x 32 where that fills more multiprocessors; backward_data
//           likewise, or 32 (36) tiles of one image x 32 channels; backward_filter: 16 points x 32
//           filters x 64 channels, split along the tiles. Where blocks are few, a cluster of up to
//           8 shares the depth of each.
// Traffic:  transformed weights once a block (L2), x once a block of filters, y once, dy once (a
//           block of channels); partial dw once a split.
// Limits:   fp32, 3x3, stride 1, dilation 1, groups = 1, NCHW, 64 channels and filters or more,
//           2048 tiles or more in backward_filter; needs Hopper's bulk copies. A NaN or an infinity
//           in x reaches all of its 4x4 patch.
// Measured: H200, alone in a CUDA graph, Nx64x13x13 -> 128: forward 8.1 us at N = 1 (15 without a
//           cluster), 25 at 64, 344 at 1024; backward_data 9.0 (24), 27 and 407; backward_filter
//           with db 39 at 64 and 362 at 1024. One image's 36 tiles a block make N = 64 a single
//           wave: blocks of 32 tiles take 40 us forward. 32x128x28x28 -> 128, padded: forward 111,
//           backward_filter 151.
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/winograd_products.cuh"

namespace duet {
namespace {

/// dx = dy * w, as the forward pass of this.
Conv2dProblem transposed(const Conv2dProblem& problem) {
  Conv2dProblem t = problem;
  t.c = problem.k, t.h = problem.p, t.w = problem.q;
  t.k = problem.c, t.p = problem.h, t.q = problem.w;
  t.pad_h = 2 - problem.pad_h, t.pad_w = 2 - problem.pad_w;  // may be negative
  return t;
}

class Conv2dCustomWinograd : public Conv2dImpl {
 public:
  explicit Conv2dCustomWinograd(const Conv2dProblem& problem)
      : Conv2dCustomWinograd(problem, multiprocessor_count()) {}

  void prepare(Pass pass, Context&) override {
    visit(pass, [](const auto& product) { product.prepare(); });
  }
  size_t workspace_bytes(Pass pass) const override {
    size_t bytes = 0;
    visit(pass, [&](const auto& product) { bytes = product.workspace_bytes(); });
    return bytes;
  }
  std::string detail(Pass pass) const override {
    std::string text;
    visit(pass, [&](const auto& product) { text = product.text(); });
    return text;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    forward_.run(x.data<float>(), WinogradFilters::of_forward(w.data<float>(), problem_),
                 {b.data<float>(), y.data<float>()}, run.workspace, run.stream());
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    if (sums_patches_) {
      patch_sum_.run({dy.data<float>()}, w.data<float>(), dx.data<float>(), run.workspace,
                     run.stream());
    } else {
      transposed_.run(dy.data<float>(), WinogradFilters::of_transposed(w.data<float>(), problem_),
                      {nullptr, dx.data<float>()}, run.workspace, run.stream());
    }
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    backward_filter_.run(x.data<float>(), {dy.data<float>()}, dw.data<float>(), db.data<float>(),
                         run.workspace, run.stream());
  }

  /// Of this problem on this GPU.
  std::optional<std::string> unsupported(Pass pass) const {
    std::optional<std::string> reason;
    visit(pass, [&](const auto& product) { reason = product.unsupported(); });
    return reason;
  }

 private:
  Conv2dCustomWinograd(const Conv2dProblem& problem, int multiprocessors)
      : Conv2dImpl(problem),
        forward_(problem, multiprocessors),
        patch_sum_(problem, multiprocessors),
        transposed_(transposed(problem), multiprocessors),
        backward_filter_(problem, multiprocessors),
        sums_patches_(patch_sum_.fits() && patch_sum_.cost() <= transposed_.cost()) {}

  /// Calls f with the product that computes `pass`.
  template <class F>
  void visit(Pass pass, F f) const {
    if (pass == Pass::kForward) return f(forward_);
    if (pass == Pass::kBackwardFilter) return f(backward_filter_);
    sums_patches_ ? f(patch_sum_) : f(transposed_);
  }

  const WinogradImageProduct<PlainOutput> forward_;
  const WinogradPatchSum<PlainGradient> patch_sum_;
  const WinogradImageProduct<PlainOutput> transposed_;
  const WinogradFilterGradient<PlainGradient> backward_filter_;
  const bool sums_patches_;
};

/// Where implicit GEMM is faster, or has not been seen to be slower.
std::optional<std::string> slower(const Conv2dProblem& problem, Pass pass) {
  constexpr int kFewestChannels = 64, kFewestTiles = 2048;
  if (problem.c < kFewestChannels || problem.k < kFewestChannels) {
    return "takes 64 channels and 64 filters or more: with fewer its transforms do not pay";
  }
  const int64_t tiles = int64_t{problem.n} * ceil_div(problem.p, 2) * ceil_div(problem.q, 2);
  if (pass == Pass::kBackwardFilter && tiles < kFewestTiles) {
    return "sums over 2048 tiles of 2x2 outputs or more, not " + std::to_string(tiles) +
           ": short sums do not pay for their start";
  }
  return {};
}

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass pass) {
  if (auto reason = winograd_unsupported(problem, pass)) return reason;
  if (auto reason = slower(problem, pass)) return reason;
  if (!gpu_available()) return {};
  return Conv2dCustomWinograd(problem).unsupported(pass);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_winograd() {
  return impl_entry<Conv2dCustomWinograd>("custom_winograd", unsupported);
}

}  // namespace duet
