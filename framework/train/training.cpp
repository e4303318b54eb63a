#include "train/training.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "device/range.h"
#include "train/advance.h"

namespace duet {

void advance(Context& context, StepState* state, const float* loss, const int32_t* hits) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) return advance_gpu(context, state, loss, hits);
#endif
  (void)context;
  advance_state(*state, *loss, hits[0], hits[1]);
}

Metrics metrics_of(const StepState& state) {
  if (state.halted) {
    return {std::numeric_limits<double>::quiet_NaN(), 0.0, state.counted};
  }
  const double rows = static_cast<double>(std::max<int64_t>(state.counted, 1));
  return {state.loss_sum / rows, static_cast<double>(state.hits) / rows, state.counted};
}

Training::Training(const NetSpec& spec, const std::vector<ResolvedLayer>& layers,
                   const Dataset& dataset, std::unique_ptr<Optimizer> optimizer, Context& context)
    : context_(context),
      use_graph_(spec.graph && context.device() == Device::kGpu),
      weights_(layers, spec.seed, context.device()),
      net_(layers, weights_, context),
      optimizer_(std::move(optimizer)),
      train_batches_(context, dataset, dataset.train,
                     {.batch = spec.data.batch, .seed = spec.seed, .shuffle = true}),
      validation_batches_(context, dataset, dataset.validation, {.batch = spec.data.batch}),
      state_(context.device(), sizeof(StepState)),
      evaluation_state_(context.device(), sizeof(StepState)) {
  optimizer_tensors_.w = weights_.trained();
  optimizer_tensors_.dw = net_.gradients();
  for (size_t i = 0; i < optimizer_->state_names().size(); ++i) {
    const Buffer& memory =
        optimizer_memory_.emplace_back(context.device(), optimizer_tensors_.w.bytes());
    fill_bytes(memory.data(), context.device(), 0, memory.bytes());
    optimizer_tensors_.state.push_back({optimizer_tensors_.w.desc, memory.data()});
  }
  set_state({.learning_rate = static_cast<float>(optimizer_->learning_rate())});
  fill_bytes(evaluation_state_.data(), context.device(), 0, evaluation_state_.bytes());
  list_operations();
}

void Training::list_operations() {
  operations_.push_back({"batch", "gather", "", "", 0, [this] {
                           const Range range("batch gather");
                           context_.set_training(true);
                           context_.set_step(&device_state(state_)->step);
                           train_batches_.gather(context_, net_.input(), net_.labels());
                         }});
  for (const Net::Call& call : net_.calls()) {
    const Net::Node::Step& step = *call.step;
    operations_.push_back({call.node->name, std::string(to_string(step.pass)), step.id,
                           call.node->layer->problem_text(),
                           step.implementation->workspace_bytes(step.pass),
                           [this, call] { net_.run(*call.node, *call.step); }});
  }
  const float* loss = net_.loss().data<float>();
  const std::string optimizer(optimizer_->type());
  operations_.push_back(
      {"update", "", optimizer, "", 0, [this, loss, label = "update " + optimizer] {
         const Range range(label);
         optimizer_->update(context_, optimizer_tensors_, device_state(state_), loss);
       }});
  operations_.push_back({"advance", "", "", "", 0, [this, loss] {
                           const Range range("advance");
                           advance(context_, device_state(state_), loss,
                                   net_.hits().data<int32_t>());
                         }});
}

void Training::queue_forward_backward() {
  const size_t passes = operations_.size() - 2;  // all but update and advance
  for (size_t i = 0; i < passes; ++i) operations_[i].queue();
}

void Training::queue_step() {
  for (const Operation& operation : operations_) operation.queue();
}

void Training::queue_evaluation() {
  context_.set_training(false);
  context_.set_step(&device_state(evaluation_state_)->step);
  {
    const Range range("batch gather");
    validation_batches_.gather(context_, net_.input(), net_.labels());
  }
  net_.forward();
  const Range range("advance");
  advance(context_, device_state(evaluation_state_), net_.loss().data<float>(),
          net_.hits().data<int32_t>());
}

void Training::prepare() {
  if (!use_graph_) return;
  const Range range("prepare");
  queue_forward_backward();
  restart_evaluation();
  queue_evaluation();
  context_.synchronize();
  step_graph_ = StepGraph(context_, [this] {
    const Range capture("capture step");
    queue_step();
  });
  evaluation_graph_ = StepGraph(context_, [this] {
    const Range capture("capture evaluation");
    queue_evaluation();
  });
}

void Training::step() {
  const Range range("step");
  if (step_graph_) {
    step_graph_.launch();
  } else {
    queue_step();
  }
}

StepState Training::state() {
  StepState state;
  copy_bytes(&state, Device::kCpu, state_.data(), context_.device(), sizeof state);
  return state;
}

void Training::set_state(const StepState& state) {
  copy_bytes(state_.data(), context_.device(), &state, Device::kCpu, sizeof state);
}

void Training::clear_totals() {
  StepState now = state();
  now.loss_sum = 0.0;
  now.hits = now.counted = 0;
  set_state(now);
}

void Training::evaluation_step() {
  if (evaluation_graph_) {
    evaluation_graph_.launch();
  } else {
    queue_evaluation();
  }
}

void Training::restart_evaluation() {
  const StepState zero;
  copy_bytes(evaluation_state_.data(), context_.device(), &zero, Device::kCpu, sizeof zero);
}

StepState Training::evaluation_state() {
  StepState state;
  copy_bytes(&state, Device::kCpu, evaluation_state_.data(), context_.device(), sizeof state);
  return state;
}

Metrics Training::evaluate() {
  const Range range("evaluation");
  restart_evaluation();
  for (int64_t i = 0; i < validation_batches_.per_epoch(); ++i) evaluation_step();
  return metrics_of(evaluation_state());
}

size_t Training::memory_bytes() const {
  size_t bytes = weights_.memory_bytes() + net_.memory_bytes() + train_batches_.memory_bytes() +
                 validation_batches_.memory_bytes() + state_.bytes() + evaluation_state_.bytes();
  for (const Buffer& memory : optimizer_memory_) bytes += memory.bytes();
  return bytes;
}

std::string name_of(const Training::Operation& operation) {
  return operation.layer + (operation.pass.empty() ? "" : " " + operation.pass);
}

std::string Training::explain_halt() {
  queue_forward_backward();
  context_.synchronize();
  const std::string where = net_.find_non_finite();
  return where.empty() ? "the loss itself" : where;
}

}  // namespace duet
