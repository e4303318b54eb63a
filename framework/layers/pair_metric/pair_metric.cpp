#include "layers/pair_metric/pair_metric.h"

#include "core/number_text.h"
#include "layers/pair.h"

namespace duet {

// Each in the file of its name.
ImplEntry<PairMetricProblem> pair_metric_cpu_reference();
ImplEntry<PairMetricProblem> pair_metric_custom_block_per_row();

namespace {

// No cudnn entry: cuDNN has no metrics. The cudnn family takes the shared entry.
PairMetricImpls all_impls() {
  return {
    pair_metric_cpu_reference(),
#if DUET_WITH_CUDA
        pair_metric_custom_block_per_row(),
#endif
  };
}

// A list of its own.
template <PairMetricKind>
PairMetricImpls& list_of() {
  static PairMetricImpls list = all_impls();
  return list;
}

constexpr std::string_view kNames[] = {"mean_absolute_error", "mean_squared_error",
                                       "psnr"};  // by kind

template <PairMetricKind kind>
class PairMetricLayer : public LayerOf<PairMetricLayer<kind>, PairMetricProblem> {
 public:
  explicit PairMetricLayer(ConfigReader& reader)
      : PairMetricLayer::LayerOf(kNames[static_cast<int>(kind)], list_of<kind>(), forward_alone()) {
    if (!kIsPsnr) return;
    data_range_ = reader.number("data_range", {}, kLeastRange, kMostRange);
    border_ = reader.integer("border", 0, 0);
  }

  bool change_option(size_t number) override {
    if (number == 0) data_range_ *= data_range_ < 1 ? 3 : 0.25;
    if (number == 1) border_ = border_ == 0 ? 1 : border_ - 1;
    return kIsPsnr && number < 2;
  }
  bool is_metric() const override { return true; }
  bool larger_is_better() const override { return kIsPsnr; }
  std::vector<std::string_view> fields() const override { return {kTargetsField, kRowsField}; }

 protected:
  PairMetricProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    check_pair(inputs);
    const TensorDesc& x = inputs[0];
    check_border(x.shape);
    this->outputs_ = metric_outputs(x.dtype);
    return {.kind = kind, .x = x, .dtype = x.dtype, .data_range = data_range_, .border = border_};
  }

 private:
  static constexpr bool kIsPsnr = kind == PairMetricKind::kPsnr;
  static constexpr double kLeastRange = 1e-6, kMostRange = 1e9;

  void check_border(const Shape& x) const {
    if (border_ == 0) return;
    if (x.rank() != 4) {
      throw ShapeError("cuts a border off images N,C,H,W, not off " + x.to_string() +
                       "; leave 'border' out");
    }
    if (2 * border_ < std::min(x[2], x[3])) return;
    throw ShapeError("cuts " + std::to_string(border_) + " pixels off each side, and of " +
                     x.to_string() + " nothing is left; make 'border' smaller");
  }

  double data_range_ = 1.0;
  int64_t border_ = 0;
};

template <PairMetricKind kind>
const LayerType& type_of(std::string_view summary) {
  static const LayerType type =
      layer_type<PairMetricLayer<kind>, list_of<kind>>(kNames[static_cast<int>(kind)], summary);
  return type;
}

}  // namespace

const LayerType& mean_absolute_error_type() {
  return type_of<PairMetricKind::kMeanAbsoluteError>("metric: mean of |x - target| of a row");
}
const LayerType& mean_squared_error_type() {
  return type_of<PairMetricKind::kMeanSquaredError>("metric: mean of (x - target)^2 of a row");
}
const LayerType& psnr_type() {
  return type_of<PairMetricKind::kPsnr>(
      "metric: peak signal-to-noise ratio of an image in dB; data_range, border");
}

std::string PairMetricProblem::to_string() const {
  std::string text = "x=" + x.to_string();
  if (kind == PairMetricKind::kPsnr) text += printed(" data_range=%g", data_range);
  if (border > 0) text += " border=" + std::to_string(border);
  return text;
}

}  // namespace duet
