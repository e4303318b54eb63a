#include "layers/gpu_reference.h"

#include "device/device.h"
#include "layers/activation/activation.h"
#include "layers/composed_block.h"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/linear/linear.h"

namespace duet {

bool has_gpu_reference(const Layer& layer) {
  return built_with_cuda() && (dynamic_cast<const Conv2dLayer*>(&layer) ||
                               dynamic_cast<const Conv2dPoolReluLayer*>(&layer) ||
                               dynamic_cast<const LinearLayer*>(&layer));
}

std::unique_ptr<Implementation> make_gpu_reference(const Layer& layer) {
#if DUET_WITH_CUDA
  if (const auto* conv = dynamic_cast<const Conv2dLayer*>(&layer)) {
    return make_conv2d_gpu_reference(conv->problem());
  }
  if (const auto* block = dynamic_cast<const Conv2dPoolReluLayer*>(&layer)) {
    const Conv2dPoolReluProblem& problem = block->problem();
    const ActivationProblem relu = {
        .kind = ActivationKind::kRelu, .x = problem.y_desc(), .dtype = problem.dtype};
    auto parts = std::make_unique<ComposedBlock>();
    parts->add("conv2d", "", make_conv2d_gpu_reference(problem.conv), problem.x_desc());
    parts->add("max_pool2d", "", make_max_pool2d_gpu_reference(problem.pool), problem.z_desc());
    parts->add("relu", "", make_activation_gpu_reference(relu), problem.y_desc());
    return parts;
  }
  if (const auto* linear = dynamic_cast<const LinearLayer*>(&layer)) {
    return make_linear_gpu_reference(linear->problem());
  }
#endif
  throw std::logic_error("no GPU reference of " + std::string(layer.type()));
}

bool worth_a_gpu(double flops) {
  constexpr double kFew = 2e8;  // 0.1 s or so on two cores
  return flops >= kFew && gpu_available();
}

}  // namespace duet
