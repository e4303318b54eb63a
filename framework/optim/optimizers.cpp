// The list of optimizers.
#include <cmath>

#include "optim/optimizer.h"
#include "optim/rules.h"

namespace duet {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(double learning_rate, const SgdRule& rule) : Optimizer(learning_rate), rule_(rule) {}

  std::string_view type() const override { return "sgd"; }
  std::vector<std::string> state_names() const override {
    return rule_.momentum != 0.0f ? std::vector<std::string>{"momentum_buffer"}
                                  : std::vector<std::string>{};
  }
  void update(Context& context, const OptimizerTensors& tensors, const StepState* state,
              const float* loss) const override {
    update_parameters(context, rule_, tensors, state, loss);
  }

 private:
  SgdRule rule_;
};

class Adam : public Optimizer {
 public:
  Adam(double learning_rate, const AdamRule& rule) : Optimizer(learning_rate), rule_(rule) {}

  std::string_view type() const override { return "adam"; }
  std::vector<std::string> state_names() const override { return {"exp_avg", "exp_avg_sq"}; }
  void update(Context& context, const OptimizerTensors& tensors, const StepState* state,
              const float* loss) const override {
    update_parameters(context, rule_, tensors, state, loss);
  }

 private:
  AdamRule rule_;
};

std::unique_ptr<Optimizer> make_sgd(ConfigReader& reader) {
  const double rate = reader.number("learning_rate", 0.01, 0.0);
  SgdRule rule;
  rule.momentum = static_cast<float>(reader.number("momentum", 0.0, 0.0, 1.0));
  rule.nesterov = reader.flag("nesterov", false);
  rule.weight_decay = static_cast<float>(reader.number("weight_decay", 0.0, 0.0));
  if (rule.nesterov && rule.momentum == 0.0f) {
    reader.error("nesterov", "needs a momentum above 0");
  }
  return std::make_unique<Sgd>(rate, rule);
}

std::unique_ptr<Optimizer> make_adam(ConfigReader& reader) {
  const double rate = reader.number("learning_rate", 0.001, 0.0);
  const double below_one = std::nextafter(1.0, 0.0);
  AdamRule rule;
  rule.beta1 = reader.number("beta1", 0.9, 0.0, below_one);
  rule.beta2 = reader.number("beta2", 0.999, 0.0, below_one);
  rule.epsilon = static_cast<float>(reader.number("epsilon", 1e-8, 0.0));
  rule.weight_decay = static_cast<float>(reader.number("weight_decay", 0.0, 0.0));
  return std::make_unique<Adam>(rate, rule);
}

}  // namespace

const std::vector<const OptimizerType*>& optimizer_types() {
  static const OptimizerType sgd = {
      "sgd", "stochastic gradient descent; momentum, nesterov, weight_decay", make_sgd};
  static const OptimizerType adam = {"adam", "Adam; beta1, beta2, epsilon, weight_decay",
                                     make_adam};
  static const std::vector<const OptimizerType*> types = {&sgd, &adam};
  return types;
}

std::unique_ptr<Optimizer> read_optimizer(ConfigReader& reader) {
  std::vector<std::string> names;
  for (const OptimizerType* type : optimizer_types()) names.emplace_back(type->name);
  const std::string name = reader.choice("type", names, "sgd");
  std::unique_ptr<Optimizer> optimizer;
  for (const OptimizerType* type : optimizer_types()) {
    if (type->name == name) optimizer = type->make(reader);
  }
  reader.finish();
  return optimizer;
}

}  // namespace duet
