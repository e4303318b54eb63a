#include "layers/row_loss/row_loss.h"

#include "core/number_text.h"

namespace duet {

// Each in the file of its name.
ImplEntry<RowLossProblem> row_loss_cpu_reference();
ImplEntry<RowLossProblem> row_loss_custom_warp();

namespace {

// No cudnn entry: cuDNN has no losses. The cudnn family takes the shared entry.
RowLossImpls all_impls() {
  return {
    row_loss_cpu_reference(),
#if DUET_WITH_CUDA
        row_loss_custom_warp(),
#endif
  };
}

// A list of its own.
template <RowLossKind>
RowLossImpls& list_of() {
  static RowLossImpls list = all_impls();
  return list;
}

constexpr std::string_view kNames[] = {"mse", "bce_with_logits", "multi_margin"};  // by kind

template <RowLossKind kind>
class RowLossLayer : public LayerOf<RowLossLayer<kind>, RowLossProblem> {
 public:
  explicit RowLossLayer(ConfigReader& reader)
      : RowLossLayer::LayerOf(kNames[static_cast<int>(kind)], list_of<kind>()) {
    if (kind != RowLossKind::kMultiMargin) return;
    p_ = static_cast<int>(reader.integer("p", 1, 1, 2));
    margin_ = reader.number("margin", 1.0, -kMostMargin, kMostMargin);
  }

  bool change_option(size_t number) override {
    if (number == 0) p_ = 3 - p_;
    if (number == 1) margin_ += 0.5;
    return kind == RowLossKind::kMultiMargin && number < 2;
  }
  bool takes_labels() const override { return true; }
  SavedTensors saved(Pass) const override { return {.x = true}; }

 protected:
  RowLossProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    check_labels(inputs, LabelShapes::kRows);
    const TensorDesc& x = inputs[0];
    this->outputs_ = loss_outputs(x.dtype);
    return {.kind = kind,
            .n = static_cast<int>(x.shape[0]),
            .c = static_cast<int>(x.shape[1]),
            .dtype = x.dtype,
            .margin = margin_,
            .p = p_};
  }

 private:
  static constexpr double kMostMargin = 1e6;
  double margin_ = 1.0;
  int p_ = 1;
};

template <RowLossKind kind>
const LayerType& type_of(std::string_view summary) {
  static const LayerType type =
      layer_type<RowLossLayer<kind>, list_of<kind>>(kNames[static_cast<int>(kind)], summary);
  return type;
}

}  // namespace

RowLossImpls& mse_impls() { return list_of<RowLossKind::kMse>(); }
RowLossImpls& bce_with_logits_impls() { return list_of<RowLossKind::kBceWithLogits>(); }
RowLossImpls& multi_margin_impls() { return list_of<RowLossKind::kMultiMargin>(); }

const LayerType& mse_type() {
  return type_of<RowLossKind::kMse>("loss = mean of (x - onehot(label))^2");
}
const LayerType& bce_with_logits_type() {
  return type_of<RowLossKind::kBceWithLogits>(
      "loss = mean of the binary cross-entropy of sigmoid(x) with onehot(label)");
}
const LayerType& multi_margin_type() {
  return type_of<RowLossKind::kMultiMargin>(
      "multi-class hinge: loss = mean of max(0, margin - x[label] + x)^p; p, margin");
}

std::string RowLossProblem::to_string() const {
  const bool has_keys = kind == RowLossKind::kMultiMargin;
  return loss_text({n, c}, dtype, has_keys ? printed(" p=%d margin=%g", p, margin) : "");
}

}  // namespace duet
