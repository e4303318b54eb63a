#include "layers/ssim/ssim.h"

#include <algorithm>

#include "core/number_text.h"
#include "layers/pair.h"

namespace duet {

// Each in the file of its name.
ImplEntry<SsimProblem> ssim_cpu_reference();
ImplEntry<SsimProblem> ssim_custom_tiled();

// No cudnn entry: cuDNN has no metrics. The cudnn family takes the shared entry.
SsimImpls& ssim_impls() {
  static SsimImpls list = {
    ssim_cpu_reference(),
#if DUET_WITH_CUDA
    ssim_custom_tiled(),
#endif
  };
  return list;
}

namespace {

class SsimLayer : public LayerOf<SsimLayer, SsimProblem> {
 public:
  explicit SsimLayer(ConfigReader& reader)
      : LayerOf("ssim", ssim_impls(), forward_alone()),
        data_range_(reader.number("data_range", {}, kLeastRange, kMostRange)),
        window_(reader.choice("window", {"gaussian", "uniform"}, "gaussian") == "uniform"
                    ? SsimWindow::kUniform7
                    : SsimWindow::kGaussian11),
        border_(reader.integer("border", 0, 0)) {}

  bool change_option(size_t number) override {
    if (number == 0) data_range_ *= data_range_ < 1 ? 3 : 0.25;
    if (number == 1) {
      window_ = window_ == SsimWindow::kUniform7 ? SsimWindow::kGaussian11 : SsimWindow::kUniform7;
    }
    if (number == 2) border_ = border_ == 0 ? 1 : border_ - 1;
    return number < 3;
  }
  bool is_metric() const override { return true; }
  bool larger_is_better() const override { return true; }
  std::vector<std::string_view> fields() const override { return {kTargetsField, kRowsField}; }

 protected:
  SsimProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    check_pair(inputs);
    const TensorDesc& x = inputs[0];
    outputs_ = metric_outputs(x.dtype);
    const SsimProblem problem = {
        .x = x, .dtype = x.dtype, .data_range = data_range_, .window = window_, .border = border_};
    check_size(problem);
    return problem;
  }

 private:
  static constexpr double kLeastRange = 1e-6, kMostRange = 1e9;

  static void check_size(const SsimProblem& problem) {
    const Shape& x = problem.x.shape;
    if (x.rank() != 4) throw ShapeError("compares images N,C,H,W, not " + x.to_string());
    const int taps = problem.formula().taps;
    if (std::min(problem.height(), problem.width()) >= taps) return;
    const std::string size = std::to_string(taps) + "x" + std::to_string(taps);
    throw ShapeError(
        "compares windows of " + size + " pixels, and the images of " + x.to_string() +
        (problem.border > 0 ? ", less " + std::to_string(problem.border) + " pixels at each side,"
                            : "") +
        " are smaller; they need at least " + size +
        (problem.border > 0 ? ": make 'border' smaller" : "") +
        (problem.window == SsimWindow::kGaussian11 ? ", or use 'window: uniform' of 7x7" : ""));
  }

  double data_range_;
  SsimWindow window_;
  int64_t border_;
};

}  // namespace

const LayerType& ssim_type() {
  static const LayerType type = layer_type<SsimLayer, ssim_impls>(
      "ssim", "metric: mean structural similarity of an image; data_range, window, border");
  return type;
}

std::string SsimProblem::to_string() const {
  std::string text = "x=" + x.to_string() + printed(" data_range=%g", data_range);
  if (window == SsimWindow::kUniform7) text += " window=uniform";
  if (border > 0) text += " border=" + std::to_string(border);
  return text;
}

}  // namespace duet
