// conv2d_pool_relu custom_direct_3xtf32: custom_direct on tensor cores for fp32, each product as three of tf32.
//           backward_data, which a first layer never runs, is custom_fused's.
// Mapping:  as custom_direct has it in tf32 (conv2d/small_channels/direct_mma.cuh, conv2d/small_channels/direct_mma_filter.cuh).
// Traffic:  as custom_direct.
// Limits:   math fp32, one channel, 3x3 filters, stride 1, dilation 1; pooling 2x2 with stride 2, no pool padding;
//           infinities become NaN, as they have no two parts; compute capability 8.0, backward_filter Hopper, 64 filters and images whose dy fits in shared memory.
// Measured: H200, Nx1x28x28 -> 64, 3x3, at N = 64 and 1024: forward 7.4 us and 32.2 (custom_direct 4.3 and 35.1),
//           backward_filter 6.6 and 39.1 (7.9 and 47.9).
#include "layers/conv2d/small_channels/direct_convolution.cuh"
#include "layers/conv2d/small_channels/direct_mma_filter.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"

namespace duet {
namespace {

using Forward = DirectMmaForward<float, 3>;
using Filter = DirectMmaFilter<float, 3>;

class Conv2dPoolReluCustomDirect3xTf32 : public Conv2dPoolReluImpl {
 public:
  explicit Conv2dPoolReluCustomDirect3xTf32(const Conv2dPoolReluProblem& problem)
      : Conv2dPoolReluImpl(problem), forward_(problem.conv), general_(make_custom_fused(problem)) {
    if (!Filter::unsupported(problem.conv)) filter_.emplace(problem.conv);
  }

  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kBackwardFilter) return filter_->workspace_bytes();
    return pass == Pass::kForward ? 0 : general_->workspace_bytes(pass);
  }
  size_t state_bytes() const override { return packed_argmax_bytes(problem_.conv); }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kForward) return forward_.text();
    if (pass == Pass::kBackwardFilter) return filter_->text();
    return "custom_fused: " + general_->detail(pass);
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    forward_.run(x.data<float>(), w.data<float>(), b.data<float>(), y.data<float>(),
                 run.inference ? nullptr : state.data<uint32_t>(), run.stream());
  }
  void backward_data(const Run& run, const Tensor& y, const Tensor& dy, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    general_->backward_data(run, y, dy, state, w, dx);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    filter_->run(x.data<float>(), dy.data<float>(), state.data<uint32_t>(), dw.data<float>(),
                 db.data<float>(), run.workspace, run.stream());
  }

 private:
  const Forward forward_;
  std::optional<Filter> filter_;                       // where it can
  const std::unique_ptr<Conv2dPoolReluImpl> general_;  // runs backward_data
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  const Conv2dProblem& conv = problem.conv;
  if (auto reason = fp32_only(conv, pass)) return reason;
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  if (auto reason = direct_unsupported(conv, pass)) return reason;
  if (auto reason = Forward::unsupported(conv)) return reason;
  return pass == Pass::kBackwardFilter ? Filter::unsupported(conv) : std::nullopt;
}

/// backward_data is custom_fused's.
bool preferred(const Conv2dPoolReluProblem& problem, Pass pass, size_t) {
  if (pass == Pass::kBackwardData) return false;
  return has_many_windows(problem.conv, pass == Pass::kForward ? 1 << 16 : 1 << 13);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_direct_3xtf32() {
  auto entry = impl_entry<Conv2dPoolReluCustomDirect3xTf32>("custom_direct_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
