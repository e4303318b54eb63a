// The parameters of a network, outside of any Net: a training, an evaluation with another batch and
// a prediction share them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "device/device.h"
#include "net/resolve.h"

namespace duet {

/// One parameter of a network: a view into the flat memory of its role.
struct Parameter {
  std::string name;      // "conv1.weight"
  ParameterSpec spec;    // of a frozen layer kBuffer in place of kTrained
  std::string features;  // the features network that it is of; empty: none
  size_t offset = 0;     // bytes: of a trained one also in gradients and every optimizer state
};

class Weights {
 public:
  /// Takes the memory and initialises it from `seed`: the same bits in every arm. Float32, or
  /// float64 where the layers are.
  Weights(const std::vector<ResolvedLayer>& layers, uint64_t seed, Device device);

  Device device() const { return device_; }
  /// In the order of the layers, trained ones and others; what several layers share is there once.
  const std::vector<Parameter>& parameters() const { return parameters_; }
  /// nullptr if there is none of that name.
  const Parameter* find(const std::string& name) const;
  /// Parameter number `number` of the layer; nullptr if there is none of its name and desc.
  const Parameter* find(const ResolvedLayer& layer, size_t number) const;
  /// All trained parameters in one tensor of floats, and all others: buffers and what is frozen. The
  /// gaps between views are zero.
  Tensor trained() const { return flat(trained_); }
  Tensor buffers() const { return flat(buffers_); }
  Tensor view(const Parameter& parameter) const { return view(parameter, home(parameter)); }
  /// The same view of other memory that is laid out as trained() is: gradients, an optimizer state.
  static Tensor view(const Parameter& parameter, const Tensor& memory);
  size_t memory_bytes() const { return trained_.bytes() + buffers_.bytes(); }

  /// Counts changes of values. Who writes through a tensor, or queues what does, says so by changed(); write() and
  /// initialise() do. What nets made of the values before is then made anew (Net::prepare_weights()).
  uint64_t version() const { return version_; }
  void changed() { ++version_; }

  /// Gives them the values they start with, on their device. Synchronous.
  void initialise(uint64_t seed);

  /// A parameter's values on the CPU in PyTorch's order (KCRS), and back. `memory` is laid out as
  /// the parameter's role is; without it, its own. Synchronous.
  std::vector<float> read(const Parameter& parameter) const {
    return read(parameter, home(parameter));
  }
  std::vector<float> read(const Parameter& parameter, const Tensor& memory) const;
  void write(const Parameter& parameter, const std::vector<float>& values) {
    write(parameter, home(parameter), values);
  }
  void write(const Parameter& parameter, const Tensor& memory, const std::vector<float>& values);

 private:
  static Tensor flat(const Buffer& memory);
  Tensor home(const Parameter& parameter) const {
    return parameter.spec.trained() ? trained() : buffers();
  }

  Device device_;
  std::vector<Parameter> parameters_;
  std::map<std::string, size_t> places_;  // of parameters_, by name
  Buffer trained_, buffers_;
  uint64_t version_ = 1;
};

/// The values that parameter number `index` of a network starts with, in PyTorch's order.
std::vector<float> initial_values(const ParameterSpec& spec, uint64_t seed, uint32_t index);

}  // namespace duet
