#include "train/training.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
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
      net_(layers, spec.seed, context),
      optimizer_(std::move(optimizer)),
      train_batches_(context, dataset, dataset.train,
                     {.batch = spec.data.batch, .seed = spec.seed, .shuffle = true}),
      validation_batches_(context, dataset, dataset.validation, {.batch = spec.data.batch}),
      state_(context.device(), sizeof(StepState)),
      evaluation_state_(context.device(), sizeof(StepState)) {
  optimizer_tensors_.w = net_.flat_parameters();
  optimizer_tensors_.dw = net_.flat_gradients();
  for (size_t i = 0; i < optimizer_->state_names().size(); ++i) {
    const Buffer& memory =
        optimizer_memory_.emplace_back(context.device(), optimizer_tensors_.w.bytes());
    fill_bytes(memory.data(), context.device(), 0, memory.bytes());
    optimizer_tensors_.state.push_back({optimizer_tensors_.w.desc, memory.data()});
  }
  set_state({.learning_rate = static_cast<float>(optimizer_->learning_rate())});
}

void Training::queue_forward_backward() {
  context_.set_training(true);
  context_.set_step(&device_state(state_)->step);
  train_batches_.gather(context_, net_.input(), net_.labels());
  net_.forward();
  net_.backward();
}

void Training::queue_step() {
  queue_forward_backward();
  const float* loss = net_.loss().data<float>();
  optimizer_->update(context_, optimizer_tensors_, device_state(state_), loss);
  advance(context_, device_state(state_), loss, net_.hits().data<int32_t>());
}

void Training::queue_evaluation() {
  context_.set_training(false);
  context_.set_step(&device_state(evaluation_state_)->step);
  validation_batches_.gather(context_, net_.input(), net_.labels());
  net_.forward();
  advance(context_, device_state(evaluation_state_), net_.loss().data<float>(),
          net_.hits().data<int32_t>());
}

void Training::prepare() {
  if (!use_graph_) return;
  queue_forward_backward();
  const StepState zero;
  copy_bytes(evaluation_state_.data(), context_.device(), &zero, Device::kCpu, sizeof zero);
  queue_evaluation();
  context_.synchronize();
  step_graph_ = StepGraph(context_, [this] { queue_step(); });
  evaluation_graph_ = StepGraph(context_, [this] { queue_evaluation(); });
}

void Training::step() {
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

Metrics Training::evaluate() {
  const StepState zero;
  copy_bytes(evaluation_state_.data(), context_.device(), &zero, Device::kCpu, sizeof zero);
  for (int64_t i = 0; i < validation_batches_.per_epoch(); ++i) {
    if (evaluation_graph_) {
      evaluation_graph_.launch();
    } else {
      queue_evaluation();
    }
  }
  StepState done;
  copy_bytes(&done, Device::kCpu, evaluation_state_.data(), context_.device(), sizeof done);
  return metrics_of(done);
}

std::vector<Training::Operation> Training::operations() {
  std::vector<Operation> list;
  list.push_back({"batch", "gather", "", [this] {
                    context_.set_training(true);
                    context_.set_step(&device_state(state_)->step);
                    train_batches_.gather(context_, net_.input(), net_.labels());
                  }});
  for (const Net::Call& call : net_.calls()) {
    list.push_back({call.node->name, std::string(to_string(call.step->pass)), call.step->id,
                    [this, call] { net_.run(*call.node, *call.step); }});
  }
  const float* loss = net_.loss().data<float>();
  list.push_back({"update", "", std::string(optimizer_->type()), [this, loss] {
                    optimizer_->update(context_, optimizer_tensors_, device_state(state_), loss);
                  }});
  list.push_back({"advance", "", "", [this, loss] {
                    advance(context_, device_state(state_), loss, net_.hits().data<int32_t>());
                  }});
  return list;
}

std::string Training::explain_halt() {
  queue_forward_backward();
  context_.synchronize();
  const std::string where = net_.find_non_finite();
  return where.empty() ? "the loss itself" : where;
}

}  // namespace duet
