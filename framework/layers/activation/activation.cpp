#include "layers/activation/activation.h"

#include "core/number_text.h"

namespace duet {

// Each in the file of its name.
ImplEntry<ActivationProblem> activation_custom_vectorized();
ImplEntry<ActivationProblem> activation_custom_scalar();
ImplEntry<ActivationProblem> activation_cudnn();

namespace {

ActivationImpls all_impls() {
  return {
    activation_cpu_reference(),
#if DUET_WITH_CUDA
        activation_custom_vectorized(), activation_custom_scalar(), activation_cudnn(),
#endif
  };
}

// A list of its own.
template <ActivationKind>
ActivationImpls& list_of() {
  static ActivationImpls list = all_impls();
  return list;
}

// By kind.
constexpr std::string_view kNames[] = {"relu", "leaky_relu", "sigmoid", "tanh", "silu", "gelu"};

template <ActivationKind kind, auto& impls>
const LayerType& type_of(std::string_view summary) {
  static constexpr std::string_view kName = kNames[static_cast<int>(kind)];
  static const LayerType type = {
      kName, summary,
      [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        const double slope =
            kind == ActivationKind::kLeakyRelu ? reader.number("slope", 0.01) : 0.0;
        const bool by_tanh = kind == ActivationKind::kGelu &&
                             reader.choice("approximate", {"none", "tanh"}, "none") == "tanh";
        return std::make_unique<ActivationLayer>(
            kName, impls(), by_tanh ? ActivationKind::kGeluTanh : kind, static_cast<float>(slope));
      },
      [] { return infos_of(impls()); }};
  return type;
}

}  // namespace

ActivationImpls& relu_impls() { return list_of<ActivationKind::kRelu>(); }
ActivationImpls& leaky_relu_impls() { return list_of<ActivationKind::kLeakyRelu>(); }
ActivationImpls& sigmoid_impls() { return list_of<ActivationKind::kSigmoid>(); }
ActivationImpls& tanh_impls() { return list_of<ActivationKind::kTanh>(); }
ActivationImpls& silu_impls() { return list_of<ActivationKind::kSilu>(); }
// Without cudnn, whose calls have no gelu. The cudnn family takes the shared entry.
ActivationImpls& gelu_impls() {
  static ActivationImpls list = [] {
    ActivationImpls impls = all_impls();
    std::erase_if(impls, [](const auto& entry) { return family_of(entry.id) == Family::kCudnn; });
    for (auto& entry : impls) entry.shared = entry.id == "custom_vectorized";
    return impls;
  }();
  return list;
}

const LayerType& relu_type() { return type_of<ActivationKind::kRelu, relu_impls>("y = max(x, 0)"); }
const LayerType& leaky_relu_type() {
  return type_of<ActivationKind::kLeakyRelu, leaky_relu_impls>(
      "y = x for x > 0, slope * x otherwise");
}
const LayerType& sigmoid_type() {
  return type_of<ActivationKind::kSigmoid, sigmoid_impls>("y = 1 / (1 + exp(-x))");
}
const LayerType& tanh_type() { return type_of<ActivationKind::kTanh, tanh_impls>("y = tanh(x)"); }
const LayerType& silu_type() {
  return type_of<ActivationKind::kSilu, silu_impls>("y = x / (1 + exp(-x))");
}
const LayerType& gelu_type() {
  return type_of<ActivationKind::kGelu, gelu_impls>(
      "y = x * the share of the normal distribution below x");
}

std::string ActivationProblem::to_string() const {
  std::string text = "x=" + x.to_string();
  if (kind == ActivationKind::kLeakyRelu) text += printed(" slope=%g", slope);
  if (kind == ActivationKind::kGeluTanh) text += " approximate=tanh";
  return text;
}

}  // namespace duet
