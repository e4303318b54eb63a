#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

#include "core/number_text.h"

namespace duet {

// Each in the file of its name.
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cpu_reference();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_warp();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_naive();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cudnn();

std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls() {
  static std::vector<ImplEntry<SoftmaxCrossEntropyProblem>> list = {
    softmax_cross_entropy_cpu_reference(),
#if DUET_WITH_CUDA
    softmax_cross_entropy_custom_warp(),
    softmax_cross_entropy_custom_naive(),
    softmax_cross_entropy_cudnn(),
#endif
  };
  return list;
}

std::string SoftmaxCrossEntropyProblem::to_string() const {
  std::string keys;
  if (label_smoothing != 0.0f) keys += printed(" label_smoothing=%g", label_smoothing);
  for (size_t j = 0; j < class_weights.size(); ++j) {
    keys += printed(j == 0 ? " class_weights=%g" : ":%g", class_weights[j]);
  }
  if (ignored_class != kNoClass) keys += " ignore_class=" + std::to_string(ignored_class);
  if (mixed) keys += " labels=mixed";
  return loss_text(x, dtype, keys);
}

SoftTargets::SoftTargets(const SoftmaxCrossEntropyProblem& problem, const float* class_weights)
    : class_weights(problem.class_weights.empty() ? nullptr : class_weights),
      mixed(problem.mixed),
      ignored(problem.ignored_class),
      kept(1.0f - problem.label_smoothing),
      spread(problem.label_smoothing / static_cast<float>(problem.c)),
      total(problem.class_weights.empty() ? static_cast<float>(problem.c) : 0.0f) {
  for (float weight : problem.class_weights) total += weight;
}

namespace {

class SoftmaxCrossEntropyLayer
    : public LayerOf<SoftmaxCrossEntropyLayer, SoftmaxCrossEntropyProblem> {
 public:
  // Keys that are not given are not written either: checkpoints from before there were any agree.
  explicit SoftmaxCrossEntropyLayer(ConfigReader& reader)
      : LayerOf("softmax_cross_entropy", softmax_cross_entropy_impls()) {
    if (reader.raw("label_smoothing")) {
      label_smoothing_ = static_cast<float>(reader.number("label_smoothing", {}, 0.0, 1.0));
    }
    ignored_class_ = read_ignored_class(reader);
    if (!reader.raw("class_weights")) return;
    double sum = 0.0;
    // {1.0}: what is no list of numbers has been told.
    for (double weight : reader.numbers("class_weights", {1.0})) {
      if (!(weight >= 0.0 && weight <= kMostWeight)) {
        reader.error("class_weights", "expected numbers from 0 to 1e6");
        return;
      }
      class_weights_.push_back(static_cast<float>(weight));
      sum += class_weights_.back();
    }
    if (!(sum > 0.0)) reader.error("class_weights", "expected a number above 0 among them");
  }

  bool change_option(size_t number) override {
    if (number == 0) label_smoothing_ = label_smoothing_ < 0.5f ? label_smoothing_ + 0.25f : 0.125f;
    if (number == 1) class_weights_.assign(static_cast<size_t>(inputs_[0].shape.last()), 0.5f);
    if (number == 1) class_weights_.back() = 2.0f;
    if (number == 2) ignored_class_ = ignored_class_ == 0 ? 1 : 0;
    return number < 3;
  }
  bool takes_labels() const override { return true; }
  std::span<const float> class_weights() const override { return class_weights_; }
  int32_t ignored_class() const override { return ignored_class_; }
  SavedTensors saved(Pass) const override { return {.x = true}; }

 protected:
  SoftmaxCrossEntropyProblem infer(const std::vector<TensorDesc>& inputs,
                                   const LayerOptions&) override {
    check_labels(inputs, LabelShapes::kAll);
    const TensorDesc& x = inputs[0];
    outputs_ = loss_outputs(x.dtype);
    const int64_t classes = x.shape.last();
    const int64_t given = static_cast<int64_t>(class_weights_.size());
    if (given != 0 && given != classes) {
      throw ShapeError("takes a class weight for each of the " + std::to_string(classes) +
                       " logits of a row, and class_weights has " + std::to_string(given));
    }
    return {.x = x.shape,
            .n = static_cast<int>(x.elements() / classes),
            .c = static_cast<int>(classes),
            .dtype = x.dtype,
            .label_smoothing = label_smoothing_,
            .class_weights = class_weights_,
            .mixed = are_mixed(inputs[1], x),
            .ignored_class = ignored_class_};
  }

 private:
  static constexpr double kMostWeight = 1e6;
  float label_smoothing_ = 0.0f;
  std::vector<float> class_weights_;
  int32_t ignored_class_ = kNoClass;
};

}  // namespace

const LayerType& softmax_cross_entropy_type() {
  static const LayerType type = layer_type<SoftmaxCrossEntropyLayer, softmax_cross_entropy_impls>(
      "softmax_cross_entropy", "loss = mean of -log softmax(x)[label]; counts the hits");
  return type;
}

}  // namespace duet
