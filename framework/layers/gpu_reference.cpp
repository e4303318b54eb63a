#include "layers/gpu_reference.h"

#include "core/error.h"
#include "device/device.h"
#include "layers/activation/activation.h"
#include "layers/composed_block.h"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/linear/linear.h"
#include "layers/linear_relu/linear_relu.h"

namespace duet {
namespace {

/// A tensor on `device`, as LayerTensors has them.
struct Upload {
  Upload(Device device, const TensorDesc& desc, const std::vector<double>& values)
      : buffer(device, desc.bytes()), view{desc, buffer.data()} {
    copy_bytes(buffer.data(), device, values.data(), Device::kCpu, desc.bytes());
  }
  Buffer buffer;
  Tensor view;
};

#if DUET_WITH_CUDA
ActivationProblem relu_of(const TensorDesc& x) {
  return {.kind = ActivationKind::kRelu, .x = x, .dtype = x.dtype};
}
#endif

}  // namespace

bool has_gpu_reference(const Layer& layer) {
  return built_with_cuda() &&
         (dynamic_cast<const Conv2dLayer*>(&layer) ||
          dynamic_cast<const Conv2dPoolReluLayer*>(&layer) ||
          dynamic_cast<const LinearLayer*>(&layer) || dynamic_cast<const LinearReluLayer*>(&layer));
}

std::unique_ptr<Implementation> make_gpu_reference(const Layer& layer) {
#if DUET_WITH_CUDA
  if (const auto* conv = dynamic_cast<const Conv2dLayer*>(&layer)) {
    return make_conv2d_gpu_reference(conv->problem());
  }
  if (const auto* block = dynamic_cast<const Conv2dPoolReluLayer*>(&layer)) {
    const Conv2dPoolReluProblem& problem = block->problem();
    auto parts = std::make_unique<ComposedBlock>();
    parts->add("conv2d", "", make_conv2d_gpu_reference(problem.conv), problem.x_desc());
    parts->add("max_pool2d", "", make_max_pool2d_gpu_reference(problem.pool), problem.z_desc());
    parts->add("relu", "", make_activation_gpu_reference(relu_of(problem.y_desc())),
               problem.y_desc());
    return parts;
  }
  if (const auto* linear = dynamic_cast<const LinearLayer*>(&layer)) {
    return make_linear_gpu_reference(linear->problem());
  }
  if (const auto* block = dynamic_cast<const LinearReluLayer*>(&layer)) {
    const LinearProblem& problem = block->problem();
    auto parts = std::make_unique<ComposedBlock>();
    parts->add("linear", "", make_linear_gpu_reference(problem), problem.x_desc());
    parts->add("relu", "", make_activation_gpu_reference(relu_of(problem.y_desc())),
               problem.y_desc());
    return parts;
  }
#endif
  throw std::logic_error("no GPU reference of " + std::string(layer.type()));
}

bool worth_a_gpu(double flops) {
  constexpr double kFew = 2e8;  // 0.1 s or so on two cores
  return flops >= kFew && gpu_available();
}

std::vector<double> forward_in_double(
    double flops, const std::function<std::unique_ptr<Implementation>(Context&)>& make,
    const DoubleTensor& x, const std::vector<DoubleTensor>& w, const TensorDesc& y) {
  const auto on = [&](Device device) {
    Context context(device);
    std::vector<Upload> memory;
    const auto upload = [&](const TensorDesc& desc, const std::vector<double>& values) {
      return memory.emplace_back(device, desc, values).view;
    };
    std::vector<double> result(static_cast<size_t>(y.elements()));
    LayerTensors t;
    t.x = {upload(x.desc, x.values)};
    for (const DoubleTensor& each : w) t.w.push_back(upload(each.desc, each.values));
    t.y = {upload(y, result)};
    make(context)->run(Pass::kForward, Run{context}, t);
    copy_bytes(result.data(), Device::kCpu, t.y[0].memory, device, y.bytes());
    return result;
  };
  if (worth_a_gpu(flops)) {
    try {
      return on(Device::kGpu);
    } catch (const OutOfMemoryError&) {
      // The host's memory is larger.
    }
  }
  return on(Device::kCpu);
}

}  // namespace duet
