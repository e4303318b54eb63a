#include "user_kernels/kernel_interface.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>

namespace duet {
namespace {

using Constants = std::vector<KernelConstant>;

std::string capitals(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// A later constant of the same name takes the place of the one before.
void set(Constants* constants, KernelConstant constant) {
  std::erase_if(*constants, [&](const auto& each) { return each.name == constant.name; });
  constants->push_back(std::move(constant));
}
void set(Constants* constants, const std::string& name, int64_t value) {
  const bool fits = value <= std::numeric_limits<int>::max();
  set(constants, {fits ? "int" : "long long", name, std::to_string(value)});
}
void set(Constants* constants, const std::string& name, bool value) {
  set(constants, {"bool", name, value ? "true" : "false"});
}

const KernelConstant* find(const Constants& constants, const std::string& name) {
  const auto found = std::find_if(constants.begin(), constants.end(),
                                  [&](const auto& each) { return each.name == name; });
  return found == constants.end() ? nullptr : &*found;
}

// False if the word's value has no type here.
bool set_word(Constants* constants, const std::string& name, const std::string& value) {
  if (const auto whole = number_in<int64_t>(value)) {
    set(constants, name, *whole);
  } else if (value == "true" || value == "false") {
    set(constants, name, value == "true");
  } else if (value == "nchw" || value == "nhwc") {
    set(constants, name + "_NHWC", value == "nhwc");
  } else if (number_in<double>(value)) {
    set(constants, {"float", name, "float(" + value + ")"});
  } else {
    const size_t by = value.find('x');
    const auto high = number_in<int64_t>(value.substr(0, by));
    const auto wide =
        by == std::string::npos ? std::nullopt : number_in<int64_t>(value.substr(by + 1));
    if (!high || !wide) return false;
    set(constants, name + "_H", *high);
    set(constants, name + "_W", *wide);
  }
  return true;
}

// The words name=value of the problem, but its x, which is told by shape. Returns the first that has
// no type.
std::string set_words(const Layer& layer, Constants* constants) {
  std::istringstream words(layer.problem_text());
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || word.starts_with("x=")) continue;
    const std::string name = word.substr(0, equals);
    if (!set_word(constants, capitals(name), word.substr(equals + 1))) return name;
  }
  return "";
}

Constants constants_of(const Layer& layer) {
  Constants constants;
  const Shape &x = layer.inputs()[0].shape, &y = layer.outputs()[0].shape;
  const int64_t elements = layer.inputs()[0].elements();
  const int64_t columns = x.rank() > 0 ? x[x.rank() - 1] : 1;
  const std::vector<const char*> letters = {"N", "C", "H", "W"};
  if (x.rank() == 2 || x.rank() == 4) {
    for (int i = 0; i < x.rank(); ++i) set(&constants, letters[static_cast<size_t>(i)], x[i]);
  }
  set(&constants, "ELEMENTS", elements);
  set(&constants, "COLUMNS", columns);
  set(&constants, "ROWS", elements / columns);
  set(&constants, "NHWC", x.rank() == 4 && layer.inputs()[0].layout == Layout::kNHWC);
  set(&constants, "TF32", layer.options().math == Math::kTF32);
  if (layer.takes_labels()) {  // which a problem without these keys does not name
    set(&constants, "LABEL_SMOOTHING", int64_t{0});
    set(&constants, "IGNORE_CLASS", int64_t{kNoClass});
  }
  set_words(layer, &constants);
  if (y.rank() == 4) {
    const bool taken = find(constants, "P") != nullptr;
    set(&constants, taken ? "Y_P" : "P", y[2]);
    set(&constants, taken ? "Y_Q" : "Q", y[3]);
  }
  return constants;
}

// ---- tensors ----

using List = std::vector<Tensor> LayerTensors::*;

class Passes {
 public:
  explicit Passes(const Layer& layer) : layer_(layer) {}

  std::vector<KernelTensor> of(Pass pass) const {
    const bool block = layer_.passes().size() == 3 && !layer_.chooses_per_pass();
    std::vector<KernelTensor> all;
    switch (pass) {
      case Pass::kForward:
        add_values(&all, "x", &LayerTensors::x, layer_.inputs());
        add_parameters(&all, true);
        add_values(&all, "y", &LayerTensors::y, layer_.outputs(), true);
        break;
      case Pass::kBackward:
        add_values(&all, "x", &LayerTensors::x, layer_.inputs());
        add_parameters(&all, false);
        add_values(&all, "y", &LayerTensors::y, layer_.outputs());
        add_gradients(&all, "dy", &LayerTensors::dy, layer_.outputs());
        add_gradients(&all, "dx", &LayerTensors::dx, layer_.inputs(), true);
        add_parameter_gradients(&all);
        break;
      case Pass::kBackwardFilter:
      case Pass::kBackwardData: {
        const bool filter = pass == Pass::kBackwardFilter;
        if (filter || block) add_values(&all, "x", &LayerTensors::x, layer_.inputs());
        if (block) add_values(&all, "y", &LayerTensors::y, layer_.outputs());
        add_gradients(&all, "dy", &LayerTensors::dy, layer_.outputs());
        if (filter) {
          add_parameter_gradients(&all);
        } else {
          all.push_back(parameter("w", "weight", &LayerTensors::w, false));
          add_gradients(&all, "dx", &LayerTensors::dx, layer_.inputs(), true);
        }
        break;
      }
    }
    return all;
  }

 private:
  std::string type_of(const TensorDesc& desc) const {
    if (desc.dtype == DType::kInt32) return "int";
    return desc.dtype == layer_.inputs()[0].dtype ? "T" : "float";
  }

  // Fields of the batch and what losses and metrics give have names of their own, and no gradients
  // but that of the loss.
  void add_values(std::vector<KernelTensor>* all, const std::string& name, List list,
                  const std::vector<TensorDesc>& descs, bool written = false) const {
    for (size_t i = 0; i < descs.size(); ++i) {
      std::string own = descs.size() > 1 ? name + std::to_string(i) : name;
      if (const auto fields = layer_.fields(); name == "x" && !fields.empty()) {
        own = i == 0 ? "x" : std::string(fields[i - 1]);
      }
      if (name == "y" && layer_.is_loss()) own = i == 0 ? "loss" : "hits";
      if (name == "y" && layer_.is_metric()) own = "totals";
      all->push_back({own, list, i, type_of(descs[i]), written});
    }
  }
  void add_gradients(std::vector<KernelTensor>* all, const std::string& name, List list,
                     const std::vector<TensorDesc>& descs, bool written = false) const {
    const size_t count = layer_.is_loss() ? 1 : descs.size();
    for (size_t i = 0; i < count; ++i) {
      std::string own = count > 1 ? name + std::to_string(i) : name;
      if (layer_.is_loss() && !written) own = "dloss";
      all->push_back({own, list, i, type_of(descs[i]), written});
    }
  }

  KernelTensor parameter(const std::string& name, const std::string& of, List list,
                         bool written) const {
    const auto& parameters = layer_.parameters();
    const auto found = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const ParameterSpec& each) { return each.name == of; });
    KernelTensor tensor{name, list, {}, "float", written};
    if (found != parameters.end()) tensor.index = static_cast<size_t>(found - parameters.begin());
    return tensor;
  }
  // Layers with a key that leaves parameters out have null pointers then, and so one signature.
  void add_parameters(std::vector<KernelTensor>* all, bool updates) const {
    if (!layer_.may_have_parameters()) return;
    all->push_back(parameter("w", "weight", &LayerTensors::w, false));
    all->push_back(parameter("b", "bias", &LayerTensors::w, false));
    for (const ParameterSpec& each : layer_.parameters()) {
      if (each.trained()) continue;
      all->push_back(parameter(each.name, each.name, &LayerTensors::w, updates));
    }
  }
  void add_parameter_gradients(std::vector<KernelTensor>* all) const {
    if (!layer_.may_have_parameters()) return;
    all->push_back(parameter("dw", "weight", &LayerTensors::dw, true));
    all->push_back(parameter("db", "bias", &LayerTensors::dw, true));
  }

  const Layer& layer_;
};

}  // namespace

std::optional<std::string> no_kernel_interface(const Layer& layer) {
  if (layer.draws_masks()) {
    return "draws random masks, which kernels of a file cannot";
  }
  const DType dtype = layer.inputs()[0].dtype;
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) {
    return "kernels of a file store float32 or bfloat16, not " + std::string(to_string(dtype));
  }
  Constants constants;
  const std::string word = set_words(layer, &constants);
  if (!word.empty()) return "kernels of a file are not told of '" + word + "'";
  return {};
}

KernelInterface kernel_interface(const Layer& layer) {
  KernelInterface made{.constants = constants_of(layer)};
  for (const Pass pass : layer.passes()) made.passes[pass] = Passes(layer).of(pass);
  return made;
}

std::string arguments_text(const std::vector<KernelTensor>& tensors, const std::string& stored) {
  std::string text;
  for (const KernelTensor& tensor : tensors) {
    if (!text.empty()) text += ", ";
    if (!tensor.written) text += "const ";
    text += (tensor.type == "T" ? stored : tensor.type) + "* " + tensor.name;
  }
  return text;
}

}  // namespace duet
