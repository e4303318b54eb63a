#include "layers/linear_relu/linear_relu.h"

#include <algorithm>
#include <cmath>

#include "device/side_stream.h"
#include "layers/activation/activation.h"
#include "layers/composed_block.h"
#include "layers/gpu_reference.h"
#include "layers/rounding.h"

namespace duet {
namespace {

/// Ids in the lists of linear and relu. The block's is the former.
struct LinearParts {
  std::string_view linear, relu;
};
constexpr LinearParts kLinearCpuBlas = {"cpu_blas", "cpu_reference"};
constexpr LinearParts kLinearCpuReference = {"cpu_reference", "cpu_reference"};

ActivationProblem relu_problem(const LinearProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.y_desc(), .dtype = problem.dtype};
}

template <const LinearParts& ids>
std::optional<std::string> unsupported(const LinearProblem& problem, Pass pass) {
  const Pass other = pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
  auto reason = part_unsupported("linear", linear_impls(), ids.linear, problem, pass);
  if (reason) return reason;
  return part_unsupported("relu", relu_impls(), ids.relu, relu_problem(problem), other);
}

std::unique_ptr<Implementation> compose(const LinearParts& ids, const LinearProblem& problem,
                                        Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  block->add("linear", linear_impls(), ids.linear, problem, problem.x_desc(), context);
  block->add("relu", relu_impls(), ids.relu, relu_problem(problem), problem.y_desc(), context);
  return block;
}
template <const LinearParts& ids>
std::unique_ptr<Implementation> make_composed(const LinearProblem& problem, Context& context) {
  return compose(ids, problem, context);
}

#if DUET_WITH_CUDA
constexpr LinearParts kLinearWgmma = {"custom_wgmma", "custom_vectorized"};
constexpr LinearParts kLinearWgmmaSplit = {"custom_wgmma_3xtf32", "custom_vectorized"};
constexpr LinearParts kLinearMma = {"custom_mma", "custom_vectorized"};
constexpr LinearParts kLinearRegisterTiled = {"custom_register_tiled", "custom_vectorized"};
constexpr LinearParts kLinearLargeTile = {"custom_large_tile", "custom_vectorized"};
constexpr LinearParts kLinearNaive = {"custom_naive", "custom_scalar"};
constexpr LinearParts kLinearCublas = {"cudnn_cublas", "cudnn"};

/// Forward is linear's, which writes relu of its sums. backward_filter begins with relu's gradient;
/// y stands for what relu read, as both are positive in the same places.
class FusedBlock : public Implementation {
 public:
  FusedBlock(const LinearParts& ids, const LinearProblem& problem, Context& context)
      : y_(problem.y_desc()) {
    LinearProblem with_relu = problem;
    with_relu.relu = true;
    linear_ = entry_of(linear_impls(), ids.linear).make(with_relu, context);
    relu_ = entry_of(relu_impls(), ids.relu).make(relu_problem(problem), context);
  }

  void prepare(Pass pass, Context& context) override {
    linear_->prepare(pass, context);
    if (pass == Pass::kBackwardFilter) relu_->prepare(Pass::kBackward, context);
  }
  size_t workspace_bytes(Pass pass) const override {
    const size_t bytes = linear_->workspace_bytes(pass);
    if (pass != Pass::kBackwardFilter) return bytes;
    return std::max(bytes, relu_->workspace_bytes(Pass::kBackward));
  }
  size_t state_bytes() const override { return y_.bytes(); }
  std::string detail(Pass pass) const override { return linear_->detail(pass); }
  std::vector<std::string> calls(Pass pass) const override {
    std::vector<std::string> all = linear_->calls(pass);
    if (pass != Pass::kBackwardFilter) return all;
    const std::vector<std::string> relu = relu_->calls(Pass::kBackward);
    all.insert(all.begin(), relu.begin(), relu.end());
    return all;
  }

  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    if (pass == Pass::kForward) return linear_->run(pass, run, t);
    if (pass == Pass::kBackwardFilter) {
      relu_tensors_.x[0] = relu_tensors_.y[0] = t.y[0];
      relu_tensors_.dy[0] = t.dy[0];
      relu_tensors_.dx[0] = {y_, t.state.memory};
      relu_->run(Pass::kBackward, run, relu_tensors_);
    }
    linear_->run(pass, pass == Pass::kBackwardFilter ? aside(run) : run, of_linear(t));
  }

  /// linear's: those of its parameters.
  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    return linear_->ports(pass, inference);
  }
  void prepare_weights(const Run& run, const LayerTensors& t) override {
    linear_->prepare_weights(run, t);
  }

 private:
  /// With room, so that nothing is allocated in a run.
  static LayerTensors room() {
    return {.x = std::vector<Tensor>(1),
            .y = std::vector<Tensor>(1),
            .dx = std::vector<Tensor>(1),
            .dy = std::vector<Tensor>(1),
            .w = std::vector<Tensor>(2),
            .dw = std::vector<Tensor>(2)};
  }

  /// Its backward passes'.
  const LayerTensors& of_linear(const LayerTensors& t) {
    linear_tensors_.x = t.x, linear_tensors_.dx = t.dx;
    linear_tensors_.w = t.w, linear_tensors_.dw = t.dw;
    linear_tensors_.dy[0] = {y_, t.state.memory};
    return linear_tensors_;
  }

  const TensorDesc y_;
  std::unique_ptr<Implementation> linear_, relu_;
  LayerTensors linear_tensors_ = room(), relu_tensors_ = room();
};

template <const LinearParts& ids>
std::unique_ptr<Implementation> make_fused(const LinearProblem& problem, Context& context) {
  return std::make_unique<FusedBlock>(ids, problem, context);
}

/// What a linear layer of the family would run by, then relu: what the fused ones are compared with.
template <Family family>
std::optional<std::string> composed_unsupported(const LinearProblem& problem, Pass) {
  if (choice_of(linear_impls(), family, problem, three_passes(), 0)) return {};
  return "linear has no implementation of " + std::string(to_string(family)) + " for all passes";
}
template <Family family>
std::unique_ptr<Implementation> make_choice(const LinearProblem& problem, Context& context) {
  const auto* const linear =
      choice_of(linear_impls(), family, problem, three_passes(), context.workspace_limit());
  return compose({linear->id, family == Family::kCustom ? "custom_vectorized" : "cudnn"}, problem,
                 context);
}

/// Where linear prefers it.
template <const LinearParts& ids>
bool preferred(const LinearProblem& problem, Pass pass, size_t workspace_limit) {
  return entry_of(linear_impls(), ids.linear).preferred(problem, pass, workspace_limit);
}
#endif

std::unique_ptr<Implementation> reference([[maybe_unused]] const LinearProblem& problem,
                                          Context& context) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) return make_linear_gpu_reference(problem);
#endif
  return linear_cpu_reference().make(problem, context);
}

}  // namespace

std::vector<ImplEntry<LinearProblem>>& linear_relu_impls() {
  static std::vector<ImplEntry<LinearProblem>> list = {
    {kLinearCpuBlas.linear, unsupported<kLinearCpuBlas>, make_composed<kLinearCpuBlas>},
    {.id = kLinearCpuReference.linear,
     .unsupported = unsupported<kLinearCpuReference>,
     .make = make_composed<kLinearCpuReference>,
     .dtypes = reference_dtypes()},
#if DUET_WITH_CUDA
    {.id = kLinearWgmma.linear,
     .unsupported = unsupported<kLinearWgmma>,
     .make = make_fused<kLinearWgmma>,
     .dtypes = gpu_dtypes()},
    {.id = kLinearMma.linear,
     .unsupported = unsupported<kLinearMma>,
     .make = make_fused<kLinearMma>,
     .dtypes = gpu_dtypes(),
     .preferred = preferred<kLinearMma>},
    {.id = kLinearRegisterTiled.linear,
     .unsupported = unsupported<kLinearRegisterTiled>,
     .make = make_fused<kLinearRegisterTiled>,
     .dtypes = gpu_dtypes(),
     .preferred = preferred<kLinearRegisterTiled>},
    {.id = kLinearWgmmaSplit.linear,
     .unsupported = unsupported<kLinearWgmmaSplit>,
     .make = make_fused<kLinearWgmmaSplit>,
     .preferred = preferred<kLinearWgmmaSplit>},
    {.id = kLinearLargeTile.linear,
     .unsupported = unsupported<kLinearLargeTile>,
     .make = make_fused<kLinearLargeTile>,
     .preferred = preferred<kLinearLargeTile>},
    {.id = kLinearNaive.linear,
     .unsupported = unsupported<kLinearNaive>,
     .make = make_fused<kLinearNaive>,
     .dtypes = gpu_dtypes()},
    {.id = "custom_composed",
     .unsupported = composed_unsupported<Family::kCustom>,
     .make = make_choice<Family::kCustom>,
     .dtypes = gpu_dtypes()},
    {.id = kLinearCublas.linear,
     .unsupported = unsupported<kLinearCublas>,
     .make = make_fused<kLinearCublas>,
     .dtypes = gpu_dtypes()},
    {.id = "cudnn_composed",
     .unsupported = composed_unsupported<Family::kCudnn>,
     .make = make_choice<Family::kCudnn>,
     .dtypes = gpu_dtypes()},
#endif
  };
  return list;
}

LinearReluLayer::LinearReluLayer(ConfigReader& reader)
    : LayerOf("linear_relu", linear_relu_impls(), three_passes()),
      params_(LinearParams::read(reader)) {}

bool LinearReluLayer::shares_state(std::string_view a, std::string_view b) const {
  return family_of(a) == family_of(b) && is_composed(a) == is_composed(b);
}

LinearProblem LinearReluLayer::infer(const std::vector<TensorDesc>& inputs,
                                     const LayerOptions& options) {
  const LinearProblem problem = linear_problem(params_, inputs[0], options);
  outputs_ = {problem.y_desc()};
  parameters_ = linear_parameters(problem, params_.init);
  return problem;
}

void LinearReluLayer::settle(const std::vector<std::vector<double>>& x,
                             const std::vector<std::vector<double>>& w,
                             std::vector<std::vector<double>>& dy) const {
  LinearProblem linear = problem();
  linear.dtype = DType::kFloat64;
  std::vector<DoubleTensor> parameters = {{linear.w_desc(), w[0]}};
  if (linear.bias) parameters.push_back({linear.b_desc(), w[1]});
  const std::vector<double> z = forward_in_double(
      flops(Pass::kForward), [&](Context& context) { return reference(linear, context); },
      {linear.x_desc(), x[0]}, parameters, linear.y_desc());
  double square = 0;
  for (double value : z) square += value * value;
  const double near = near_tie(linear.math) * std::sqrt(square / static_cast<double>(z.size()));
  for (size_t i = 0; i < z.size(); ++i) {
    if (std::abs(z[i]) < near) dy[0][i] = 0;
  }
}

const LayerType& linear_relu_type() {
  static const LayerType type = layer_type<LinearReluLayer, linear_relu_impls>(
      "linear_relu", "linear and relu in one", {{"out", "out_features"}}, {{{"linear"}, {"relu"}}});
  return type;
}

}  // namespace duet
