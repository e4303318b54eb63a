#include "layers/dropout/dropout.h"

#include "core/number_text.h"
#include "core/open_range.h"

namespace duet {

// Each in the file of its name.
ImplEntry<DropoutProblem> dropout_cpu_reference();
ImplEntry<DropoutProblem> dropout_custom_recompute();
ImplEntry<DropoutProblem> dropout_custom_mask();

// There is no cudnn: cuDNN draws masks of its own, so that its arm would drop other elements. The
// family takes the shared entry.
std::vector<ImplEntry<DropoutProblem>>& dropout_impls() {
  static std::vector<ImplEntry<DropoutProblem>> list = {
    dropout_cpu_reference(),
#if DUET_WITH_CUDA
    dropout_custom_recompute(),
    dropout_custom_mask(),
#endif
  };
  return list;
}

std::string DropoutProblem::to_string() const { return "x=" + x.to_string() + printed(" p=%g", p); }

DropoutMask::DropoutMask(const DropoutProblem& problem)
    : seed(problem.seed), stream(problem.stream), p(problem.p) {
  const Shape& shape = problem.x.shape;
  if (shape.rank() == 4 && problem.x.layout == Layout::kNHWC) {
    channels_last = true;
    channels = shape[1];
    pixels = shape[2] * shape[3];
  }
}

namespace {

class DropoutLayer : public LayerOf<DropoutLayer, DropoutProblem> {
 public:
  explicit DropoutLayer(ConfigReader& reader)
      : LayerOf("dropout", dropout_impls()), p_(read_dropout_share(reader)) {}

  bool draws_masks() const override { return true; }
  bool change_option(size_t number) override {
    p_ = p_ < 0.5f ? p_ + 0.25f : p_ / 2;
    return number == 0;
  }

 protected:
  DropoutProblem infer(const std::vector<TensorDesc>& inputs,
                       const LayerOptions& options) override {
    outputs_ = {inputs[0]};
    return dropout_problem(p_, inputs[0], options);
  }

 private:
  float p_;
};

}  // namespace

float read_dropout_share(ConfigReader& reader) {
  const auto p = static_cast<float>(reader.number("p", 0.5, 0.0, kBelowOne));
  if (p < 1.0f) return p;
  reader.error("p", "is 1 as a float; expected a number below 1");
  return 0.5f;
}

DropoutProblem dropout_problem(float p, const TensorDesc& x, const LayerOptions& options) {
  return {.x = x, .p = p, .seed = options.seed, .stream = options.stream, .dtype = x.dtype};
}

const LayerType& dropout_type() {
  static const LayerType type = layer_type<DropoutLayer, dropout_impls>(
      "dropout", "drops elements with probability p and scales the others by 1/(1-p)");
  return type;
}

}  // namespace duet
