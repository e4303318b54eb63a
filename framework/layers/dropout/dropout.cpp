#include "layers/dropout/dropout.h"

#include <sstream>

#include "layers/dropout/dropout_impls.h"

namespace duet {

std::string DropoutProblem::to_string() const {
  std::ostringstream text;
  text << "x=" << x.to_string() << " p=" << p;
  return text.str();
}

DropoutMask::DropoutMask(const DropoutProblem& problem)
    : seed(problem.seed), stream(problem.stream), p(problem.p) {
  const Shape& shape = problem.x.shape;
  if (shape.rank() == 4 && problem.x.layout == Layout::kNHWC) {
    channels_last = true;
    channels = shape[1];
    pixels = shape[2] * shape[3];
  }
}

DropoutLayer::DropoutLayer(float p) : LayerOf(dropout_impls()), p_(p) {}

DropoutProblem DropoutLayer::infer(const std::vector<TensorDesc>& inputs,
                                   const LayerOptions& options) {
  outputs_ = {inputs[0]};
  return {.x = inputs[0],
          .p = p_,
          .seed = options.seed,
          .stream = options.stream,
          .dtype = inputs[0].dtype};
}

const LayerType& dropout_type() {
  static const LayerType type = {
      "dropout", "drops elements with probability p and scales the others by 1/(1-p)",
      [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        double p = reader.number("p", 0.5, 0.0, 1.0);
        if (static_cast<float>(p) >= 1.0f) {
          reader.error("p", "p must be less than 1");
          p = 0.5;
        }
        return std::make_unique<DropoutLayer>(static_cast<float>(p));
      },
      [] { return DropoutLayer::infos(dropout_impls()); }};
  return type;
}

}  // namespace duet
