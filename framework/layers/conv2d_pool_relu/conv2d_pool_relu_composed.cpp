// conv2d_pool_relu cpu_blas, cpu_reference, custom_composed, cudnn, cudnn_graph: the parts' own
// implementations.
#include "layers/activation/activation.h"
#include "layers/composed_block.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu_general.h"

namespace duet {
namespace {

/// Ids in the lists of conv2d, and of max_pool2d and relu.
struct ConvParts {
  std::string_view conv, others;
};
constexpr ConvParts kConvCpuBlas = {"cpu_blas", "cpu_reference"};
constexpr ConvParts kConvCpuReference = {"cpu_reference", "cpu_reference"};
constexpr ConvParts kConvCudnn = {"cudnn", "cudnn"};
constexpr ConvParts kConvCudnnGraph = {"cudnn_graph", "cudnn"};
#if DUET_WITH_CUDA
constexpr std::string_view kCustomParts = "custom_vectorized";  // of max_pool2d and relu
#endif

ActivationProblem relu_problem(const Conv2dPoolReluProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.y_desc(), .dtype = problem.dtype};
}

/// Why `id` of max_pool2d or of relu cannot be a part, or nothing.
std::optional<std::string> others_unsupported(std::string_view id,
                                              const Conv2dPoolReluProblem& problem, Pass pass) {
  const Pass other = pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
  auto reason = part_unsupported("max_pool2d", max_pool2d_impls(), id, problem.pool, other);
  if (reason) return reason;
  return part_unsupported("relu", relu_impls(), id, relu_problem(problem), other);
}
template <const ConvParts& ids>
std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  auto reason = part_unsupported("conv2d", conv2d_impls(), ids.conv, problem.conv, pass);
  return reason ? reason : others_unsupported(ids.others, problem, pass);
}

std::unique_ptr<Implementation> compose(const ConvParts& ids, const Conv2dPoolReluProblem& problem,
                                        Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  block->add("conv2d", conv2d_impls(), ids.conv, problem.conv, problem.x_desc(), context);
  block->add("max_pool2d", max_pool2d_impls(), ids.others, problem.pool, problem.z_desc(), context);
  block->add("relu", relu_impls(), ids.others, relu_problem(problem), problem.y_desc(), context);
  return block;
}

template <const ConvParts& ids>
std::unique_ptr<Implementation> make(const Conv2dPoolReluProblem& problem, Context& context) {
  return compose(ids, problem, context);
}

#if DUET_WITH_CUDA
/// Beside custom_fused, to compare it with: where that cannot run, the layers of a network run one by one,
/// and each pass of the convolution by what is best for it.
std::optional<std::string> custom_unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = custom_fused_unsupported(problem, pass)) return reason;
  if (!choice_of(conv2d_impls(), Family::kCustom, problem.conv, three_passes(), 0)) {
    return "conv2d has no implementation of custom for all passes";
  }
  return others_unsupported(kCustomParts, problem, pass);
}
std::unique_ptr<Implementation> make_custom(const Conv2dPoolReluProblem& problem,
                                            Context& context) {
  const auto* const conv = choice_of(conv2d_impls(), Family::kCustom, problem.conv, three_passes(),
                                     context.workspace_limit());
  return compose({conv->id, kCustomParts}, problem, context);
}
#endif

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_blas() {
  return {"cpu_blas", unsupported<kConvCpuBlas>, make<kConvCpuBlas>};
}
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = unsupported<kConvCpuReference>,
          .make = make<kConvCpuReference>,
          .dtypes = {DType::kFloat32, DType::kFloat64}};
}
#if DUET_WITH_CUDA
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_composed() {
  return {"custom_composed", custom_unsupported, make_custom};
}
#endif
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn() {
  return {"cudnn", unsupported<kConvCudnn>, make<kConvCudnn>};
}
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn_graph() {
  return {.id = "cudnn_graph",
          .unsupported = unsupported<kConvCudnnGraph>,
          .make = make<kConvCudnnGraph>,
          .preferred = [](const Conv2dPoolReluProblem& problem, Pass, size_t) {
            return problem.conv.math != Math::kFP32;  // as conv2d cudnn_graph
          }};
}

}  // namespace duet
