#include "train/training.h"

#include <algorithm>

#include "core/error.h"
#include "core/interrupt.h"
#include "device/range.h"
#include "train/features_weights.h"

namespace duet {
namespace {

/// While it stands, a network runs gradients of parameters on a branch.
class RunsAside {
 public:
  RunsAside(Net& net, SideStream* branch) : net_(net) { net.run_aside(branch); }
  ~RunsAside() { net_.run_aside(nullptr); }
  RunsAside(const RunsAside&) = delete;
  RunsAside& operator=(const RunsAside&) = delete;

 private:
  Net& net_;
};

}  // namespace

Training::Training(const NetSpec& spec, const std::vector<ResolvedLayer>& layers,
                   const Dataset& dataset, std::unique_ptr<Optimizer> optimizer,
                   const Schedule& schedule, Context& context)
    : context_(context),
      use_graph_(spec.graph && context.device() == Device::kGpu),
      graph_steps_(spec.graph_steps),
      weights_(layers, spec.seed, context.device()),
      net_(layers, weights_, context),
      optimizer_(std::move(optimizer)),
      train_batches_(context, dataset, dataset.train,
                     {.batch = spec.data.batch,
                      .seed = spec.seed,
                      .shuffle = true,
                      .augment = dataset.augment,
                      .stream = dataset.stream}),
      schedule_(schedule.rule(optimizer_->learning_rate(), train_batches_.per_epoch())),
      evaluation_(net_, dataset, dataset.validation),
      totals_(net_),
      state_(context.device(), sizeof(StepState)) {
  const TrainSpec& train = spec.train;
  if (!train.init_from.empty()) {
    initial_ = take_initial_weights(train.init_from, train.init_skip, weights_);
  }
  ConfigErrors errors("the configuration");
  take_features_weights(spec, weights_, errors);
  errors.raise_if_any();
  optimizer_tensors_.w = weights_.trained();
  optimizer_tensors_.dw = net_.gradients();
  const auto take = [&] {
    const Buffer& memory =
        optimizer_memory_.emplace_back(context.device(), optimizer_tensors_.w.bytes());
    fill_bytes(memory.data(), context.device(), 0, memory.bytes());
    return Tensor{optimizer_tensors_.w.desc, memory.data()};
  };
  for (size_t i = 0; i < optimizer_->state_names().size(); ++i) {
    optimizer_tensors_.state.push_back(take());
  }
  if (optimizer_->options().ema > 0.0) {
    optimizer_tensors_.ema = take();
    aside_ = take();
    restart_average();
  }
  for (const Parameter& parameter : weights_.parameters()) {
    if (!parameter.spec.trained()) continue;
    const auto offset = static_cast<int64_t>(parameter.offset / sizeof(float));
    const ParameterSpec& spec = parameter.spec;
    const Shape& shape = spec.desc.shape;
    // What joins one value with one is no matrix, however many axes it has: a layer_norm's weight.
    const bool joins = spec.fan_in > 1 || spec.fan_out > 1;
    optimizer_tensors_.parameters.push_back({offset, joins ? shape : Shape{shape.elements()}});
  }
  update_ = optimizer_->bind(context, optimizer_tensors_);
  set_state({});
  write_program();
}

void Training::write_program() {
  program_.push_back(
      gather_operation([this] { train_batches_.gather(context_, step_number(), net_.fields()); }));
  for (const Net::Call& call : net_.calls()) {
    program_.push_back(layer_operation(call, [this, &call] {
      wait_for_prepared(call);
      net_.run(call, step_number());
    }));
  }
  program_.push_back(update_operation(std::string(optimizer_->type()), [this] {
    weights_.changed();
    totals_.queue();
    update_->queue(device_state(state_), totals_.end(schedule_));
  }));
}

void Training::wait_for_prepared(const Net::Call& call) {
  if (!prepared_ || !net_.takes_prepared(call)) return;
  branch_->hold_main(*prepared_);
  prepared_.reset();
}

void Training::prepare() {
  if (!use_graph_) return;
  const Range range("prepare");
  const Tensor buffers = weights_.buffers();  // forward updates them
  const auto before = download(buffers.memory, context_.device(), buffers.bytes());
  stage();
  branch_ = std::make_unique<SideStream>(context_);
  const RunsAside aside(net_, branch_.get());
  if (net_.prepare_aside()) prepared_ = branch_->mark();
  for (const Operation& operation : program_) {
    using Kind = Operation::Kind;
    if (operation.kind == Kind::kGather || operation.kind == Kind::kLayer) operation.queue();
  }
  net_.join_aside();
  context_.synchronize();
  copy_bytes(buffers.memory, context_.device(), before.data(), Device::kCpu, before.size());
  evaluation_.capture(graph_steps_);
  // The host stages each batch of a stream.
  graphs_ = StepGraphs(train_batches_.is_streamed() ? 1 : graph_steps_,
                       [&](int64_t steps) { return captured(steps); });
}

// A step of fashion_mnist_cnn at batch 64 in bf16 on an H200 takes 79.8 us with one in a graph, 78.3
// with 2, 77.7 with 4, 77.6 with 8 and 76.8 with 16. What did not pay there:
// - updating parameters in parts, beside the passes of the layers before theirs: 75.1 us in one part; 75.3 in two, all but
//   the first layer's beside its gradients; 79.8 on a branch of their own;
// - updating fc1's and fc2's beside the beginning of the next step: 70.4 us either way (tf32 99.9 for 101, fp32 104.8
//   for 105.5), as gather and the first convolution take 2 us more beside it (in tf32 4);
// - that on a branch of its own, and the next batch gathered there too: 74.1 us (tf32 112.3, fp32 107.0). One of the first
//   kernels behind a fork begins some 6 us late, and that was then the main branch's;
// - fc1's in the kernel of its gradient: in bf16 93.6 us for 78.7, in tf32 118.6 for 100.5, in fp32 115.6 for
//   104.3, with a branch in every division; without those, on an H100, in bf16 90 for 75 and in fp32 124 for 117. The update
//   took 4.2 us for 8.2, and backward_filter 18.8 for 4.1, presumably as a product has few warps to hide the time of
//   divisions and roots.
StepGraph Training::captured(int64_t steps) {
  return StepGraph(context_, [&] {
    const Range capture("capture step");
    for (int64_t i = 0; i < steps; ++i) {
      if (net_.prepare_aside()) prepared_ = branch_->mark();
      for (const Operation& operation : program_) {
        if (operation.kind == Operation::Kind::kUpdate) net_.join_aside();
        operation.queue();
      }
    }
  });
}

void Training::step(int64_t count) {
  while (count > 0) count -= step_some(count);
}

int64_t Training::step_some(int64_t most) {
  const Range range("step");
  if (!train_batches_.stage(next_, InterruptGuard::requested)) throw InterruptedError();
  const int64_t count = graphs_.fitting(most);
  next_ += static_cast<uint64_t>(count);
  if (graphs_) {
    graphs_.launch(count);
    weights_.changed();
  } else {
    queue(program_);
  }
  return count;
}

void Training::stage() {
  if (!train_batches_.is_streamed()) return;
  next_ = state().step;
  train_batches_.stage(next_);
}

StepState Training::state() {
  StepState state;
  copy_bytes(&state, Device::kCpu, state_.data(), context_.device(), sizeof state);
  return state;
}

void Training::set_state(const StepState& state) {
  copy_bytes(state_.data(), context_.device(), &state, Device::kCpu, sizeof state);
  next_ = state.step;
  set_learning_rate(context_, device_state(state_), schedule_);
}

void Training::clear_totals() {
  StepState now = state();
  std::fill(std::begin(now.totals), std::end(now.totals), Total{});
  set_state(now);
}

Metrics Training::evaluate() {
  const Tensor &w = optimizer_tensors_.w, &ema = optimizer_tensors_.ema;
  if (!ema) return evaluation_.run();
  context_.queue_copy(aside_.memory, w.memory, w.bytes());
  context_.queue_copy(w.memory, ema.memory, w.bytes());
  weights_.changed();
  const Metrics metrics = evaluation_.run();
  context_.queue_copy(w.memory, aside_.memory, w.bytes());
  weights_.changed();
  return metrics;
}

std::vector<std::pair<std::string, Tensor>> Training::optimizer_states() const {
  std::vector<std::pair<std::string, Tensor>> states;
  const std::vector<std::string> names = optimizer_->state_names();
  for (size_t i = 0; i < names.size(); ++i) {
    states.emplace_back(names[i], optimizer_tensors_.state[i]);
  }
  if (optimizer_tensors_.ema) states.emplace_back("weights", optimizer_tensors_.w);
  return states;
}

void Training::restart_average() {
  const Tensor &w = optimizer_tensors_.w, &ema = optimizer_tensors_.ema;
  if (!ema) return;
  copy_bytes(ema.memory, context_.device(), w.memory, context_.device(), w.bytes());
}

size_t Training::memory_bytes() const {
  size_t bytes = net_.memory_bytes() + train_batches_.memory_bytes() + evaluation_.memory_bytes() +
                 state_.bytes() + totals_.memory_bytes() + update_->memory_bytes();
  for (const Buffer& memory : optimizer_memory_) bytes += memory.bytes();
  return bytes;
}

std::string Training::explain_halt() {
  stage();
  train_batches_.gather(context_, step_number(), net_.fields());
  const std::string where = net_.find_non_finite(step_number());
  return where.empty() ? "the loss itself" : where;
}

}  // namespace duet
