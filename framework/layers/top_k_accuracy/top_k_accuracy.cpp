#include "layers/top_k_accuracy/top_k_accuracy.h"

#include "layers/loss.h"

namespace duet {

// Each in the file of its name.
ImplEntry<TopKAccuracyProblem> top_k_accuracy_cpu_reference();
ImplEntry<TopKAccuracyProblem> top_k_accuracy_custom_warp();

// No cudnn entry: cuDNN has no metrics. The cudnn family takes the shared entry.
TopKAccuracyImpls& top_k_accuracy_impls() {
  static TopKAccuracyImpls list = {
    top_k_accuracy_cpu_reference(),
#if DUET_WITH_CUDA
    top_k_accuracy_custom_warp(),
#endif
  };
  return list;
}

std::string TopKAccuracyProblem::to_string() const {
  std::string keys = " k=" + std::to_string(k);
  if (ignored_class != kNoClass) keys += " ignore_class=" + std::to_string(ignored_class);
  if (mixed) keys += " labels=mixed";
  return loss_text(x, dtype, keys);
}

namespace {

class TopKAccuracyLayer : public LayerOf<TopKAccuracyLayer, TopKAccuracyProblem> {
 public:
  explicit TopKAccuracyLayer(ConfigReader& reader)
      : LayerOf("top_k_accuracy", top_k_accuracy_impls(), forward_alone()),
        k_(reader.integer("k", 5)),
        ignored_class_(read_ignored_class(reader)) {}

  bool change_option(size_t number) override {
    if (number == 0) k_ = k_ > 1 ? k_ - 1 : 2;
    if (number == 1) ignored_class_ = ignored_class_ == 0 ? 1 : 0;
    return number < 2;
  }
  bool is_loss() const override { return false; }
  bool is_metric() const override { return true; }
  bool larger_is_better() const override { return true; }
  bool takes_labels() const override { return true; }
  int32_t ignored_class() const override { return ignored_class_; }

 protected:
  TopKAccuracyProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    check_labels(inputs, LabelShapes::kAll);
    const TensorDesc& x = inputs[0];
    const int64_t classes = x.shape.last();
    if (k_ > classes) {
      throw ShapeError("looks at the " + std::to_string(k_) + " largest outputs of a row, and " +
                       x.shape.to_string() + " has " + std::to_string(classes) +
                       "; set 'k' to at most " + std::to_string(classes));
    }
    outputs_ = metric_outputs(x.dtype);
    return {.x = x.shape,
            .n = static_cast<int>(x.elements() / classes),
            .c = static_cast<int>(classes),
            .dtype = x.dtype,
            .k = static_cast<int>(k_),
            .mixed = are_mixed(inputs[1], x),
            .ignored_class = ignored_class_};
  }

 private:
  int64_t k_;
  int32_t ignored_class_;
};

}  // namespace

const LayerType& top_k_accuracy_type() {
  static const LayerType type = layer_type<TopKAccuracyLayer, top_k_accuracy_impls>(
      "top_k_accuracy", "metric: share of rows whose label is among the k largest outputs; k");
  return type;
}

}  // namespace duet
