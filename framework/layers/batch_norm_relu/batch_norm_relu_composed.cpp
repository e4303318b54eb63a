// batch_norm2d_relu and batch_norm1d_relu cpu_reference, cudnn, cudnn_persistent: the parts' own
// implementations, taken from the parts' lists by id and run one after the other. This is what a
// fused kernel is measured against.
//
//   state      z (what relu reads), its gradient dz, and what the parts keep themselves
#include "core/arena.h"
#include "layers/batch_norm_relu/batch_norm_relu_impls.h"
#include "layers/block_parts.h"
#include "layers/relu/relu_impls.h"

namespace duet {
namespace {

/// Ids in the lists of batch_norm and relu.
struct Parts {
  std::string_view norm, relu;
};
constexpr Parts kCpuReference = {"cpu_reference", "cpu_reference"};
constexpr Parts kCudnn = {"cudnn", "cudnn"};
constexpr Parts kCudnnPersistent = {"cudnn_persistent", "cudnn"};

BatchNormProblem norm_problem(BatchNormProblem problem) {
  problem.relu = false;
  return problem;
}
ActivationProblem relu_problem(const BatchNormProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.x, .dtype = problem.dtype};
}

class BatchNormReluComposed : public Implementation {
 public:
  BatchNormReluComposed(const BatchNormProblem& problem, const Parts& parts, Context& context)
      : problem_(problem), ids_(parts) {
    norm_.implementation =
        entry_of(batch_norm_impls(), parts.norm).make(norm_problem(problem), context);
    relu_.implementation = entry_of(relu_impls(), parts.relu).make(relu_problem(problem), context);
    z_offset_ = state_.reserve(problem.x.bytes());
    dz_offset_ = state_.reserve(problem.x.bytes());
    for (PartOfBlock* part : {&norm_, &relu_}) {
      part->state_offset = state_.reserve(part->implementation->state_bytes());
    }
  }

  void prepare(Pass pass, Context& context) override {
    for (PartOfBlock* part : {&norm_, &relu_}) part->implementation->prepare(pass, context);
  }
  size_t workspace_bytes(Pass pass) const override {
    return std::max(norm_.implementation->workspace_bytes(pass),
                    relu_.implementation->workspace_bytes(pass));
  }
  size_t state_bytes() const override { return state_.bytes(); }
  std::string detail(Pass pass) const override {
    const std::string norm = norm_.implementation->detail(pass);
    return "not fused, " + std::to_string(calls(pass).size()) + " calls" +
           (norm.empty() ? "" : "; batch_norm: " + norm);
  }
  std::vector<std::string> calls(Pass pass) const override {
    std::vector<std::string> all = calls_of("batch_norm", ids_.norm, *norm_.implementation, pass);
    const auto relu = calls_of("relu", ids_.relu, *relu_.implementation, pass);
    all.insert(pass == Pass::kForward ? all.end() : all.begin(), relu.begin(), relu.end());
    return all;
  }

  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    const bool forward = pass == Pass::kForward;
    if (!forward && !t.dx[0] && !problem_.affine) return;
    norm_.tensors.x = t.x;
    norm_.tensors.w = t.w;
    norm_.tensors.y[0] = relu_.tensors.x[0] = between(t.state, z_offset_);
    relu_.tensors.y = t.y;
    if (!forward) {
      relu_.tensors.dy = t.dy;
      relu_.tensors.dx[0] = norm_.tensors.dy[0] = between(t.state, dz_offset_);
      norm_.tensors.dx = t.dx;
      norm_.tensors.dw = t.dw;
    }
    for (PartOfBlock* part : {forward ? &norm_ : &relu_, forward ? &relu_ : &norm_}) {
      part->run(pass, run, t.state);
    }
  }

 private:
  Tensor between(const Tensor& state, size_t offset) const {
    return {problem_.x, state.data<char>() + offset};
  }

  const BatchNormProblem problem_;
  const Parts ids_;
  PartOfBlock norm_, relu_;
  ArenaPlan state_;
  size_t z_offset_ = 0, dz_offset_ = 0;
};

template <const Parts& parts>
std::optional<std::string> unsupported(const BatchNormProblem& problem, Pass pass) {
  if (auto reason =
          entry_of(batch_norm_impls(), parts.norm).unsupported(norm_problem(problem), pass)) {
    return "batch_norm: " + *reason;
  }
  if (auto reason = entry_of(relu_impls(), parts.relu).unsupported(relu_problem(problem), pass)) {
    return "relu: " + *reason;
  }
  return {};
}

template <const Parts& parts>
std::unique_ptr<Implementation> make(const BatchNormProblem& problem, Context& context) {
  return std::make_unique<BatchNormReluComposed>(problem, parts, context);
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_relu_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = unsupported<kCpuReference>,
          .make = make<kCpuReference>,
          .dtypes = reference_dtypes()};
}
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn() {
  return {.id = "cudnn",
          .unsupported = unsupported<kCudnn>,
          .make = make<kCudnn>,
          .dtypes = gpu_dtypes()};
}
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn_persistent() {
  return {.id = "cudnn_persistent",
          .unsupported = unsupported<kCudnnPersistent>,
          .make = make<kCudnnPersistent>,
          .dtypes = gpu_dtypes()};
}

}  // namespace duet
