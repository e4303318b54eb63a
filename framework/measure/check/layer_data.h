// Numbers to run a layer on, and what the reference makes of them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// The values of a layer's inputs, parameters and output gradients, in memory order, and the step
/// that random masks are drawn for. All are values that the layer's tensors hold exactly, or
/// whole numbers, so that its runs and those in double start from the same numbers. dy is empty for
/// an output that is not floating-point.
struct LayerData {
  std::vector<std::vector<double>> x, w, dy;
  uint64_t step = 5;
};

/// LayerData as the layer's tensors store them, on a device. What the layer has no tensor for is
/// empty.
struct StoredData {
  StoredData(const Layer& layer, const LayerData& data, Device device);

  std::vector<Buffer> x, w, dy;
  uint64_t step;
};

/// One output of a pass: "y[0]", "dx[1]", "dw[0] weight", "running_mean".
struct NamedValues {
  std::string name;
  TensorDesc desc;
  bool parameter = false;
  std::vector<double> values;
  /// Of a reference whose values are sums of products: the size of each (layers/rounding.h), its
  /// square grown by the mean over the image of its channel (or the filter's) and a little of that
  /// over all (kMixedChannels), where transforms spread errors. Of a layer that cancels():
  /// Layer::sizes(). Empty for other values.
  std::vector<double> sizes = {};
};

/// The layer's own tensor of that name.
const TensorDesc& desc_of(const Layer& layer, const std::string& output);

/// Whether the layer is in training. Its buffers (running statistics) are outputs of forward then.
struct LayerSituation {
  bool training = true;

  bool updates(const ParameterSpec& parameter) const { return training && !parameter.trained(); }
};

/// What the reference in double makes of some data.
struct Reference {
  Device device = Device::kCpu;  // where it was computed
  std::vector<std::pair<Pass, std::vector<NamedValues>>> outputs;

  /// REQUIRES: the reference ran `pass`.
  const std::vector<NamedValues>& of(Pass pass) const;
};

bool is_float(DType dtype);

/// Values as a network in training has them: x ~ N(0, 1), weights uniform within +-1/sqrt(fan_in)
/// as they start, dy ~ N(0, 1/16), labels over all classes, rows that
/// all count. Zeros would not do: a GPU
/// runs up to 15% faster on them.
LayerData random_data(const Layer& layer, uint64_t seed);

/// Shares of all sizes, from none to all, into mixed labels.
void spread_shares(std::vector<double>& labels);

/// `data` of `from`'s layouts in the order of `to`'s. REQUIRES: equal shapes.
LayerData relayout(const LayerData& data, const Layer& from, const Layer& to);
std::vector<double> relayout(const std::vector<double>& values, const TensorDesc& from,
                             const TensorDesc& to);

/// The weight of a layer whose outputs are sums of products, or nullptr. Normalisation's is none.
const ParameterSpec* weight_of(const Layer& layer);

/// True if relayout() between the two would change nothing.
bool same_layouts(const Layer& a, const Layer& b);

/// A copy of `layer` in double, which only the references can run.
std::unique_ptr<Layer> in_double(const Layer& layer);

/// Runs the reference in double over all passes up to the last of `passes`: cpu_reference, or on a
/// GPU what layers/gpu_reference.h has for the layer. Without `device` the problem decides: a GPU
/// takes it if there is one with enough memory and a pass has too many products for the CPU
/// (worth_a_gpu), so that a large batch costs little more than a small one. Throws InterruptedError
/// soon after `stop`, if given, has come to return true; and if `device` is kGpu UnsupportedError
/// without a GPU, OutOfMemoryError. REQUIRES: has_gpu_reference(layer) if `device` is kGpu.
Reference run_reference(const Layer& layer, const LayerData& data, const LayerSituation& situation,
                        const std::vector<Pass>& passes, bool (*stop)() = nullptr,
                        std::optional<Device> device = {});

/// The passes that must have run before `pass` for it to find what it needs: forward, and, where
/// one implementation keeps a state over three passes, all that come before.
std::vector<Pass> passes_before(const Layer& layer, Pass pass);

}  // namespace duet
