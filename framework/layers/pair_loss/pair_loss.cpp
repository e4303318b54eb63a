#include "layers/pair_loss/pair_loss.h"

#include "core/number_text.h"
#include "layers/pair.h"

namespace duet {

// Each in the file of its name.
ImplEntry<PairLossProblem> pair_loss_cpu_reference();
ImplEntry<PairLossProblem> pair_loss_custom_vectorized();

namespace {

// No cudnn entry: cuDNN has no losses. The cudnn family takes the shared entry.
PairLossImpls all_impls() {
  return {
    pair_loss_cpu_reference(),
#if DUET_WITH_CUDA
        pair_loss_custom_vectorized(),
#endif
  };
}

// A list of its own.
template <PairLossKind>
PairLossImpls& list_of() {
  static PairLossImpls list = all_impls();
  return list;
}

constexpr std::string_view kNames[] = {"mse_loss", "l1_loss", "charbonnier_loss",
                                       "binary_cross_entropy_loss"};  // by kind

template <PairLossKind kind>
class PairLossLayer : public LayerOf<PairLossLayer<kind>, PairLossProblem> {
 public:
  explicit PairLossLayer(ConfigReader& reader)
      : PairLossLayer::LayerOf(kNames[static_cast<int>(kind)], list_of<kind>()) {
    if (kHasEps) eps_ = reader.number("eps", 1e-3, kLeastEps, kMostEps);
  }

  bool change_option(size_t number) override {
    if (!kHasEps || number > 0) return false;
    eps_ *= eps_ < 1 ? 3 : 0.25;
    return true;
  }
  bool is_loss() const override { return true; }
  std::vector<std::string_view> fields() const override { return {kTargetsField, kRowsField}; }
  SavedTensors saved(Pass) const override { return {.x = true}; }

 protected:
  PairLossProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    check_pair(inputs);
    const TensorDesc& x = inputs[0];
    this->outputs_ = loss_outputs(x.dtype);
    return {.kind = kind, .x = x, .dtype = x.dtype, .eps = eps_};
  }

 private:
  static constexpr bool kHasEps = kind == PairLossKind::kCharbonnier;
  // Squares of which are far from the ends of float32.
  static constexpr double kLeastEps = 1e-12, kMostEps = 1e6;
  double eps_ = 0.0;
};

template <PairLossKind kind>
const LayerType& type_of(std::string_view summary) {
  static const LayerType type =
      layer_type<PairLossLayer<kind>, list_of<kind>>(kNames[static_cast<int>(kind)], summary);
  return type;
}

}  // namespace

const LayerType& binary_cross_entropy_loss_type() {
  return type_of<PairLossKind::kBinaryCrossEntropy>(
      "loss = mean of the binary cross-entropy of sigmoid(x) with a target in [0, 1]");
}
const LayerType& charbonnier_loss_type() {
  return type_of<PairLossKind::kCharbonnier>(
      "loss = mean of sqrt((x - target)^2 + eps^2), of two tensors; eps");
}
const LayerType& l1_loss_type() {
  return type_of<PairLossKind::kL1>("loss = mean of |x - target|, of two tensors");
}
const LayerType& mse_loss_type() {
  return type_of<PairLossKind::kMse>("loss = mean of (x - target)^2, of two tensors");
}

std::string PairLossProblem::to_string() const {
  const bool has_eps = kind == PairLossKind::kCharbonnier;
  return "x=" + x.to_string() + (has_eps ? printed(" eps=%g", eps) : "");
}

}  // namespace duet
