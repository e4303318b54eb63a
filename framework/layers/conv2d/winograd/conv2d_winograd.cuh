// conv2d by F(2x2, 3x3), for custom_winograd and custom_winograd_3xtf32.
#pragma once

#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/winograd/winograd_products.cuh"
#include "layers/conv2d/winograd/winograd_transposed.h"

namespace duet {

/// kInParts: each product as three of tf32.
template <bool kInParts>
class Conv2dWinograd : public Conv2dImpl {
 public:
  explicit Conv2dWinograd(const Conv2dProblem& problem)
      : Conv2dWinograd(problem, multiprocessor_count()) {}

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
  Conv2dWinograd(const Conv2dProblem& problem, int multiprocessors)
      : Conv2dImpl(problem),
        forward_(problem, multiprocessors),
        patch_sum_(problem, multiprocessors),
        transposed_(winograd_transposed(problem), multiprocessors),
        backward_filter_(problem, multiprocessors),
        sums_patches_(patch_sum_.fits() && patch_sum_.cost() <= transposed_.cost()) {}

  /// Calls f with the product that computes `pass`.
  template <class F>
  void visit(Pass pass, F f) const {
    if (pass == Pass::kForward) return f(forward_);
    if (pass == Pass::kBackwardFilter) return f(backward_filter_);
    sums_patches_ ? f(patch_sum_) : f(transposed_);
  }

  const WinogradImageProduct<PlainOutput, kInParts> forward_;
  const WinogradPatchSum<PlainGradient, kInParts> patch_sum_;
  const WinogradImageProduct<PlainOutput, kInParts> transposed_;
  const WinogradFilterGradient<PlainGradient, kInParts> backward_filter_;
  const bool sums_patches_;
};

/// Where implicit GEMM is faster, or has not been seen to be slower.
inline std::optional<std::string> winograd_slower(const Conv2dProblem& problem, Pass pass) {
  constexpr int kFewestChannels = 64, kFewestTiles = 128;
  if (problem.c < kFewestChannels || problem.k < kFewestChannels) {
    return "takes 64 channels and 64 filters or more: with fewer its transforms do not pay";
  }
  const int64_t tiles = int64_t{problem.n} * ceil_div(problem.p, 2) * ceil_div(problem.q, 2);
  if (pass == Pass::kBackwardFilter && tiles < kFewestTiles) {
    return "sums over 128 tiles of 2x2 outputs or more, not " + std::to_string(tiles) +
           ": short sums do not pay for their start";
  }
  return {};
}

template <bool kInParts>
std::optional<std::string> conv2d_winograd_unsupported(const Conv2dProblem& problem, Pass pass) {
  if (auto reason = winograd_unsupported(problem, pass)) return reason;
  if (auto reason = winograd_slower(problem, pass)) return reason;
  if (!gpu_available()) return {};
  return Conv2dWinograd<kInParts>(problem).unsupported(pass);
}

}  // namespace duet
