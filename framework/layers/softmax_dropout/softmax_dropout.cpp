#include "layers/softmax_dropout/softmax_dropout.h"

namespace duet {

// Each in the file of its name; custom_composed and cudnn in softmax_dropout_composed_cuda.cpp.
ImplEntry<SoftmaxDropoutProblem> softmax_dropout_cpu_reference();
ImplEntry<SoftmaxDropoutProblem> softmax_dropout_cudnn();
ImplEntry<SoftmaxDropoutProblem> softmax_dropout_custom_composed();
ImplEntry<SoftmaxDropoutProblem> softmax_dropout_custom_online();

std::vector<ImplEntry<SoftmaxDropoutProblem>>& softmax_dropout_impls() {
  static std::vector<ImplEntry<SoftmaxDropoutProblem>> list = {
    softmax_dropout_cpu_reference(),
#if DUET_WITH_CUDA
    softmax_dropout_custom_online(),
    softmax_dropout_custom_composed(),
    softmax_dropout_cudnn(),
#endif
  };
  return list;
}

namespace {

class SoftmaxDropoutLayer : public LayerOf<SoftmaxDropoutLayer, SoftmaxDropoutProblem> {
 public:
  explicit SoftmaxDropoutLayer(ConfigReader& reader)
      : LayerOf("softmax_dropout", softmax_dropout_impls()), p_(read_dropout_share(reader)) {}

  bool draws_masks() const override { return true; }
  bool change_option(size_t number) override {
    p_ = p_ < 0.5f ? p_ + 0.25f : p_ / 2;
    return number == 0;
  }

  SavedTensors saved(Pass) const override { return {.x = true}; }

 protected:
  SoftmaxDropoutProblem infer(const std::vector<TensorDesc>& inputs,
                              const LayerOptions& options) override {
    const TensorDesc& x = inputs[0];
    outputs_ = {x};
    return {.softmax = softmax_problem(x),
            .dropout = dropout_problem(p_, x, options),
            .dtype = x.dtype};
  }

 private:
  float p_;
};

}  // namespace

const LayerType& softmax_dropout_type() {
  static const LayerType type = layer_type<SoftmaxDropoutLayer, softmax_dropout_impls>(
      "softmax_dropout", "softmax over the last axis and dropout in one");
  return type;
}

}  // namespace duet
