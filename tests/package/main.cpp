// Lists the layer types of an installed Duet and runs one of them.
#include <cstdio>
#include <memory>
#include <vector>

#include "core/config.h"
#include "core/error.h"
#include "device/context.h"
#include "layers/layers.h"

namespace {

int relu_of_three_numbers() {
  duet::ConfigNode keys = duet::ConfigNode::map();
  duet::ConfigErrors errors("main.cpp");
  duet::ConfigReader reader(keys, "layer relu", errors);
  const duet::LayerType* type = duet::find_layer_type("relu");
  if (!type) return 1;
  const std::unique_ptr<duet::Layer> layer = type->make(reader);
  reader.finish();
  errors.raise_if_any();

  const duet::TensorDesc desc{.shape = {1, 3}};
  layer->bind({desc}, duet::LayerOptions{});
  duet::Context context(duet::Device::kCpu);
  const auto relu = layer->make("cpu_reference", context);
  relu->prepare(duet::Pass::kForward, context);

  std::vector<float> x = {-2.0f, 0.0f, 3.0f};
  std::vector<float> y(3, -1.0f);
  duet::LayerTensors tensors;
  tensors.x = {{desc, x.data()}};
  tensors.y = {{desc, y.data()}};
  relu->run(duet::Pass::kForward, duet::Run{context}, tensors);
  std::printf("relu: %g %g %g\n", y[0], y[1], y[2]);
  return y == std::vector<float>{0.0f, 0.0f, 3.0f} ? 0 : 1;
}

}  // namespace

int main() {
  for (const duet::LayerType* type : duet::layer_types()) {
    std::printf("%.*s:", static_cast<int>(type->name.size()), type->name.data());
    for (const duet::ImplInfo& info : type->implementations()) {
      std::printf(" %.*s", static_cast<int>(info.id.size()), info.id.data());
    }
    std::printf("\n");
  }
  try {
    return relu_of_three_numbers();
  } catch (const duet::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
