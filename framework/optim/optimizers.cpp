// The list of optimizers.
#include <cmath>

#include "core/open_range.h"
#include "optim/muon.h"
#include "optim/optimizer.h"
#include "optim/update.h"

namespace duet {
namespace {

template <class Rule>
class RuleUpdate : public Update {
 public:
  RuleUpdate(Context& context, const OptimizerTensors& tensors, const Rule& rule,
             const OptimizerOptions& options)
      : context_(context), tensors_(tensors), rule_(rule), options_(context, tensors, options) {}

  void queue(StepState* state, const StepEnd& end) override {
    options_.queue();
    update_parameters(context_, rule_, tensors_, options_.extras(), state, end, options_.ticket());
  }
  size_t memory_bytes() const override { return options_.memory_bytes(); }

 private:
  Context& context_;
  const OptimizerTensors tensors_;
  const Rule rule_;
  UpdateOptions options_;
};

template <class Rule>
class RuleOptimizer : public Optimizer {
 public:
  /// The first rule.states() of `states` are kept.
  RuleOptimizer(std::string_view type, double learning_rate, const Rule& rule,
                std::vector<std::string> states)
      : Optimizer(learning_rate), type_(type), rule_(rule), states_(std::move(states)) {
    states_.resize(static_cast<size_t>(rule.states()));
  }

  std::string_view type() const override { return type_; }
  std::vector<std::string> state_names() const override { return states_; }
  std::unique_ptr<Update> bind(Context& context, const OptimizerTensors& tensors) const override {
    return std::make_unique<RuleUpdate<Rule>>(context, tensors, rule_, options());
  }

 private:
  std::string_view type_;
  Rule rule_;
  std::vector<std::string> states_;
};

float read_decay(ConfigReader& reader, double fallback) {
  return static_cast<float>(reader.number("weight_decay", fallback, 0.0));
}

std::unique_ptr<Optimizer> make_sgd(ConfigReader& reader) {
  const double rate = reader.number("learning_rate", 0.01, 0.0);
  SgdRule rule;
  rule.momentum = static_cast<float>(reader.number("momentum", 0.0, 0.0, 1.0));
  rule.nesterov = reader.flag("nesterov", false);
  rule.weight_decay = read_decay(reader, 0.0);
  if (rule.nesterov && rule.momentum == 0.0f) {
    reader.error("nesterov", "needs a momentum above 0");
  }
  const std::vector<std::string> states = {"momentum_buffer"};
  return std::make_unique<RuleOptimizer<SgdRule>>("sgd", rate, rule, states);
}

std::unique_ptr<Optimizer> make_rmsprop(ConfigReader& reader) {
  const double rate = reader.number("learning_rate", 0.01, 0.0);
  RmspropRule rule;
  rule.alpha = reader.number("alpha", 0.99, 0.0, kBelowOne);
  rule.epsilon = read_epsilon(reader);
  rule.momentum = static_cast<float>(reader.number("momentum", 0.0, 0.0, 1.0));
  rule.weight_decay = read_decay(reader, 0.0);
  const std::vector<std::string> states = {"square_avg", "momentum_buffer"};
  return std::make_unique<RuleOptimizer<RmspropRule>>("rmsprop", rate, rule, states);
}

template <bool kDecoupled>
std::unique_ptr<Optimizer> make_adam(ConfigReader& reader) {
  const double rate = reader.number("learning_rate", 0.001, 0.0);
  AdamRule rule;
  rule.beta1 = reader.number("beta1", 0.9, 0.0, kBelowOne);
  rule.beta2 = reader.number("beta2", 0.999, 0.0, kBelowOne);
  rule.epsilon = read_epsilon(reader);
  rule.decoupled = kDecoupled;
  rule.weight_decay = read_decay(reader, kDecoupled ? 0.01 : 0.0);
  const std::vector<std::string> states = {"exp_avg", "exp_avg_sq"};
  return std::make_unique<RuleOptimizer<AdamRule>>(kDecoupled ? "adamw" : "adam", rate, rule,
                                                   states);
}

// Keys that are not given are not written either: checkpoints from before there were any agree.
OptimizerOptions read_options(ConfigReader& reader) {
  OptimizerOptions options;
  if (reader.raw("clip_norm")) {
    options.clip_norm = reader.number("clip_norm", {}, kAboveZero, 1e30);
  }
  if (reader.raw("decay_biases")) options.decay_biases = reader.flag("decay_biases");
  if (reader.raw("ema")) {
    options.ema = reader.number("ema", {}, kAboveZero, kBelowOne);
  }
  return options;
}

}  // namespace

const std::vector<const OptimizerType*>& optimizer_types() {
  static const OptimizerType sgd = {
      "sgd", "stochastic gradient descent; momentum, nesterov, weight_decay", make_sgd};
  static const OptimizerType rmsprop = {
      "rmsprop", "RMSprop; alpha, epsilon, momentum, weight_decay", make_rmsprop};
  static const OptimizerType adam = {"adam", "Adam; beta1, beta2, epsilon, weight_decay",
                                     make_adam<false>};
  static const OptimizerType adamw = {
      "adamw", "Adam with decoupled weight decay; beta1, beta2, epsilon, weight_decay",
      make_adam<true>};
  static const OptimizerType muon = {
      "muon",
      "Muon for matrices, AdamW for the rest; momentum, nesterov, adjust_lr_fn, "
      "adamw_learning_rate, beta1, beta2, epsilon, weight_decay",
      make_muon};
  static const std::vector<const OptimizerType*> types = {&sgd, &rmsprop, &adam, &adamw, &muon};
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
  optimizer->set_options(read_options(reader));
  reader.finish();
  return optimizer;
}

}  // namespace duet
