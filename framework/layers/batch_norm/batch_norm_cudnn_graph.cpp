// batch_norm cudnn_graph: cuDNN's graph API (device/cudnn_graph.h), which compiles kernels for
//   training    CUDNN_BACKEND_OPERATION_NORM_FORWARD, with relu behind it in the block with relu
//   evaluation  element by element, from the running statistics: the API has no engine for
//               NORM_FORWARD's phase of inference
//   backward    CUDNN_BACKEND_OPERATION_NORM_BACKWARD. With relu, a graph before it computes again
//               what relu read, and leaves its gradient in the workspace: there is no engine for both.
// What cuDNN means, and what is done without affine, are as in batch_norm_cudnn.cpp.
#include <memory>
#include <vector>

#include "core/arena.h"
#include "device/graph_plans.h"
#include "layers/batch_norm/batch_norm.h"

namespace duet {
namespace {

using gpu::PlannedGraph;
using GraphTensor = PlannedGraph::Tensor;

/// To cuDNN features are images of one pixel.
TensorDesc image_of(const BatchNormProblem& problem) {
  const auto size = [&](int i) { return i < problem.x.shape.rank() ? problem.x.shape[i] : 1; };
  return {{size(0), size(1), size(2), size(3)}, problem.dtype, Layout::kNHWC};
}
TensorDesc channel_of(const BatchNormProblem& problem) {
  return {{1, problem.channels(), 1, 1}, accumulator_of(problem.dtype), Layout::kNHWC};
}

struct Training {
  explicit Training(const BatchNormProblem& problem) {
    gpu::OperationGraph& g = whole.graph;
    const TensorDesc image = image_of(problem);
    const auto channel = [&] { return g.tensor(channel_of(problem)); };
    t = {.x = g.tensor(image),
         .weight = channel(),
         .bias = channel(),
         .epsilon = g.number(),
         .momentum = g.number(),
         .running_mean = channel(),
         .running_var = channel(),
         .y = 0,
         .mean = channel(),
         .inverse_deviation = channel(),
         .next_running_mean = channel(),
         .next_running_var = channel()};
    y = t.y = g.tensor(image);
    if (problem.relu) t.y = g.intermediate(image);
    g.normalize(t);
    if (problem.relu) g.apply(CUDNN_POINTWISE_RELU_FWD, t.y, y);
  }
  PlannedGraph whole;
  gpu::OperationGraph::Normalization t;
  GraphTensor y;
};

/// z = (x - mean) * inverse_deviation * weight + bias, of tensors of `g`.
void normalise_elements(gpu::OperationGraph& g, const TensorDesc& image, GraphTensor x,
                        GraphTensor mean, GraphTensor inverse_deviation, GraphTensor weight,
                        GraphTensor bias, GraphTensor z) {
  const auto between = [&] { return g.intermediate(image); };
  const GraphTensor centred = between(), normal = between(), scaled = between();
  g.combine(CUDNN_POINTWISE_SUB, x, mean, centred);
  g.combine(CUDNN_POINTWISE_MUL, centred, inverse_deviation, normal);
  g.combine(CUDNN_POINTWISE_MUL, normal, weight, scaled);
  g.combine(CUDNN_POINTWISE_ADD, scaled, bias, z);
}

struct Evaluation {
  explicit Evaluation(const BatchNormProblem& problem) {
    gpu::OperationGraph& g = whole.graph;
    const TensorDesc image = image_of(problem);
    const auto channel = [&] { return g.tensor(channel_of(problem)); };
    x = g.tensor(image), y = g.tensor(image);
    weight = channel(), bias = channel(), mean = channel(), var = channel();
    epsilon = g.number();
    const GraphTensor more = g.intermediate(channel_of(problem));
    const GraphTensor inverse_deviation = g.intermediate(channel_of(problem));
    g.combine(CUDNN_POINTWISE_ADD, var, epsilon, more);
    g.apply(CUDNN_POINTWISE_RSQRT, more, inverse_deviation);
    const GraphTensor z = problem.relu ? g.intermediate(image) : y;
    normalise_elements(g, image, x, mean, inverse_deviation, weight, bias, z);
    if (problem.relu) g.apply(CUDNN_POINTWISE_RELU_FWD, z, y);
  }
  PlannedGraph whole{101};
  GraphTensor x, y, weight, bias, mean, var, epsilon;
};

/// dz = dy where what relu read is positive.
struct ReluBackward {
  explicit ReluBackward(const BatchNormProblem& problem) {
    gpu::OperationGraph& g = whole.graph;
    const TensorDesc image = image_of(problem);
    const auto channel = [&] { return g.tensor(channel_of(problem)); };
    x = g.tensor(image), dy = g.tensor(image), dz = g.tensor(image);
    weight = channel(), bias = channel(), mean = channel(), inverse_deviation = channel();
    const GraphTensor z = g.intermediate(image);
    normalise_elements(g, image, x, mean, inverse_deviation, weight, bias, z);
    g.relu_backward(z, dy, dz);
  }
  PlannedGraph whole{201};
  GraphTensor x, dy, dz, weight, bias, mean, inverse_deviation;
};

struct Backward {
  explicit Backward(const BatchNormProblem& problem) {
    gpu::OperationGraph& g = whole.graph;
    const TensorDesc image = image_of(problem);
    const auto channel = [&] { return g.tensor(channel_of(problem)); };
    t = {.x = g.tensor(image),
         .dy = g.tensor(image),
         .weight = channel(),
         .mean = channel(),
         .inverse_deviation = channel(),
         .dx = g.tensor(image),
         .dweight = channel(),
         .dbias = channel()};
    g.normalize_backward(t);
  }
  PlannedGraph whole{301};
  gpu::OperationGraph::NormalizationBackward t;
};

class BatchNormCudnnGraph : public BatchNormImpl {
 public:
  explicit BatchNormCudnnGraph(const BatchNormProblem& problem)
      : BatchNormImpl(problem),
        epsilon_(static_cast<float>(problem.eps)),
        momentum_(static_cast<float>(problem.momentum)) {
    if (problem.affine) return;
    const std::vector<float> ones(static_cast<size_t>(problem.channels()), 1.0f);
    constants_ = Buffer(Device::kGpu, 2 * part_bytes());
    fill_bytes(constants_.data(), Device::kGpu, 0, constants_.bytes());
    copy_bytes(constants_.data(), Device::kGpu, ones.data(), Device::kCpu,
               ones.size() * sizeof(float));
  }

  void prepare(Pass pass, Context& context) override {
    // What sums is chosen once for both, with relu and without, as plans differ in the order of their sums.
    const std::string what = "batch_norm cudnn_graph " + problem_.to_string() + " ";
    // No product is in these graphs, and what engines do to operands of tensor cores does not matter.
    const gpu::EngineLimits statistics = {.tensor_cores = true, .most = 2};
    const gpu::EngineLimits elements = {.tensor_cores = true, .most = 1};
    if (pass == Pass::kForward) {
      evaluation_ = std::make_unique<Evaluation>(problem_);
      evaluation_->whole.prepare(context, what + (problem_.relu ? "relu " : "") + "evaluation",
                                 elements);
      if (problem_.untrainable()) return;
      training_ = std::make_unique<Training>(problem_);
      training_->whole.prepare(context, what + "training", statistics);
      return;
    }
    if (problem_.untrainable()) return;
    if (problem_.relu) {
      relu_ = std::make_unique<ReluBackward>(problem_);
      relu_->whole.prepare(context, what + "backward of relu", elements);
    }
    backward_ = std::make_unique<Backward>(problem_);
    backward_->whole.prepare(context, what + "backward", statistics);
  }

  /// The mean of every channel, then every 1 / sqrt(var + eps).
  size_t state_bytes() const override { return 2 * part_bytes(); }
  /// Forward: the plans'. Backward: gradients of parameters and dx that nobody wants, and relu's
  /// gradient, before the plans'.
  size_t workspace_bytes(Pass pass) const override {
    const auto bytes = [](const auto& graph) { return graph ? graph->whole.workspace_bytes() : 0; };
    if (pass == Pass::kForward) return std::max(bytes(training_), bytes(evaluation_));
    return own_bytes() + std::max(bytes(relu_), bytes(backward_));
  }
  std::string detail(Pass pass) const override {
    const auto text = [](const auto& graph) { return graph ? graph->whole.detail() : ""; };
    if (pass == Pass::kForward) {
      return "training " + text(training_) + "; evaluation " + text(evaluation_);
    }
    return text(backward_) + (relu_ ? "; relu " + text(relu_) : "");
  }
  std::vector<std::string> calls(Pass pass) const override {
    const size_t graphs = pass == Pass::kBackward && problem_.relu ? 2 : 1;
    return std::vector<std::string>(graphs, "cudnnBackendExecute");
  }

  void forward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& y,
               const Tensor& state) override {
    void* const epsilon = const_cast<float*>(&epsilon_);
    if (!run.training) {
      const Evaluation& e = *evaluation_;
      return e.whole.run(run.context,
                         {{e.x, x.memory},
                          {e.y, y.memory},
                          {e.weight, weight_of(w)},
                          {e.bias, bias_of(w)},
                          {e.mean, w.running_mean.memory},
                          {e.var, w.running_var.memory},
                          {e.epsilon, epsilon}},
                         run.workspace);
    }
    const auto& t = training_->t;
    training_->whole.run(run.context,
                         {{t.x, x.memory},
                          {t.weight, weight_of(w)},
                          {t.bias, bias_of(w)},
                          {t.epsilon, epsilon},
                          {t.momentum, const_cast<float*>(&momentum_)},
                          {t.running_mean, w.running_mean.memory},
                          {t.running_var, w.running_var.memory},
                          {t.mean, part(state.memory, 0)},
                          {t.inverse_deviation, part(state.memory, 1)},
                          {t.next_running_mean, w.running_mean.memory},
                          {t.next_running_var, w.running_var.memory},
                          {training_->y, y.memory}},
                         run.workspace);
  }

  void backward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const BatchNormParameters& dw) override {
    if (!run.training) {
      throw UnsupportedError(kNoBackwardInEvaluation);
    }
    char* const unwanted = static_cast<char*>(run.workspace);
    void* const plan_workspace = unwanted + own_bytes();
    void* const mean = part(state.memory, 0);
    void* const inverse_deviation = part(state.memory, 1);
    void* dz = dy.memory;
    if (problem_.relu) {
      const ReluBackward& r = *relu_;
      dz = unwanted + own_bytes() - align_up(problem_.x.bytes());
      r.whole.run(run.context,
                  {{r.x, x.memory},
                   {r.dy, dy.memory},
                   {r.dz, dz},
                   {r.weight, weight_of(w)},
                   {r.bias, bias_of(w)},
                   {r.mean, mean},
                   {r.inverse_deviation, inverse_deviation}},
                  plan_workspace);
    }
    const auto& t = backward_->t;
    backward_->whole.run(run.context,
                         {{t.x, x.memory},
                          {t.dy, dz},
                          {t.weight, weight_of(w)},
                          {t.mean, mean},
                          {t.inverse_deviation, inverse_deviation},
                          {t.dx, dx ? dx.memory : part(unwanted, 2)},
                          {t.dweight, dw.weight ? dw.weight.memory : part(unwanted, 0)},
                          {t.dbias, dw.bias ? dw.bias.memory : part(unwanted, 1)}},
                         plan_workspace);
  }

 private:
  /// Values of all channels, with what aligns the next.
  size_t part_bytes() const { return align_up(problem_.channel_desc().bytes()); }
  void* part(void* memory, size_t number) const {
    return static_cast<char*>(memory) + number * part_bytes();
  }
  /// In the workspace of backward: dweight, dbias, dx; and dz behind them.
  size_t own_bytes() const {
    return 2 * part_bytes() + (problem_.relu ? 2 : 1) * align_up(problem_.x.bytes());
  }
  void* weight_of(const BatchNormParameters& w) const {
    return problem_.affine ? w.weight.memory : part(constants_.data(), 0);
  }
  void* bias_of(const BatchNormParameters& w) const {
    return problem_.affine ? w.bias.memory : part(constants_.data(), 1);
  }

  const float epsilon_, momentum_;  // read by cuDNN at each call
  std::unique_ptr<Training> training_;
  std::unique_ptr<Evaluation> evaluation_;
  std::unique_ptr<ReluBackward> relu_;
  std::unique_ptr<Backward> backward_;
  Buffer constants_;  // without affine: ones, then zeros
};

std::optional<std::string> unsupported(const BatchNormProblem& problem, Pass pass) {
  if (auto reason = backward_needs_training(problem, pass)) return reason;
  if (problem.x.shape.rank() == 4 && problem.x.layout == Layout::kNCHW) {
    return "evaluates by operations on elements, for which cuDNN's graph API has no engine that "
           "is right in nchw; take nhwc";
  }
  const auto together = static_cast<int64_t>(16 / size_of(problem.dtype));
  if (problem.channels() % together != 0) {
    return "cuDNN's graph API normalises channels in groups of " + std::to_string(together) +
           ", and there are " + std::to_string(problem.channels());
  }
  if (problem.x.elements() > ConfigReader::kMaxInteger) {
    return "takes fewer than 2^31 elements; use a smaller batch";
  }
  return {};
}

/// Of images (64x64x56x56 in nhwc on an H100, forward and backward: 58 and 75 us; cudnn_persistent 1,134 and 1,863, cudnn
/// 2,040 and 3,019).
bool preferred(const BatchNormProblem& problem, Pass pass, size_t) {
  return problem.x.shape.rank() == 4 && !unsupported(problem, pass);
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_cudnn_graph() {
  auto entry = impl_entry<BatchNormCudnnGraph>("cudnn_graph", unsupported, gpu_dtypes());
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
