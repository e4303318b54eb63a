// conv2d_pool_relu cpu_blas, cpu_reference, cudnn, cudnn_graph: the parts' own implementations.
#include "layers/activation/activation.h"
#include "layers/composed_block.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {
namespace {

/// Ids in the lists of conv2d, and of max_pool2d and relu.
struct Parts {
  std::string_view conv, others;
};
constexpr Parts kCpuBlas = {"cpu_blas", "cpu_reference"};
constexpr Parts kCpuReference = {"cpu_reference", "cpu_reference"};
constexpr Parts kCudnn = {"cudnn", "cudnn"};
constexpr Parts kCudnnGraph = {"cudnn_graph", "cudnn"};

ActivationProblem relu_problem(const Conv2dPoolReluProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.y_desc(), .dtype = problem.dtype};
}

template <const Parts& ids>
std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  const Pass other = pass == Pass::kForward ? Pass::kForward : Pass::kBackward;
  auto reason = part_unsupported("conv2d", conv2d_impls(), ids.conv, problem.conv, pass);
  if (!reason) {
    reason = part_unsupported("max_pool2d", max_pool2d_impls(), ids.others, problem.pool, other);
  }
  if (reason) return reason;
  return part_unsupported("relu", relu_impls(), ids.others, relu_problem(problem), other);
}

template <const Parts& ids>
std::unique_ptr<Implementation> make(const Conv2dPoolReluProblem& problem, Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  block->add("conv2d", conv2d_impls(), ids.conv, problem.conv, problem.x_desc(), context);
  block->add("max_pool2d", max_pool2d_impls(), ids.others, problem.pool, problem.z_desc(), context);
  block->add("relu", relu_impls(), ids.others, relu_problem(problem), problem.y_desc(), context);
  return block;
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_blas() {
  return {"cpu_blas", unsupported<kCpuBlas>, make<kCpuBlas>};
}
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = unsupported<kCpuReference>,
          .make = make<kCpuReference>,
          .dtypes = {DType::kFloat32, DType::kFloat64}};
}
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn() {
  return {"cudnn", unsupported<kCudnn>, make<kCudnn>};
}
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn_graph() {
  return {.id = "cudnn_graph",
          .unsupported = unsupported<kCudnnGraph>,
          .make = make<kCudnnGraph>,
          .preferred = [](const Conv2dPoolReluProblem& problem, Pass, size_t) {
            return problem.conv.math != Math::kFP32;  // as conv2d cudnn_graph
          }};
}

}  // namespace duet
