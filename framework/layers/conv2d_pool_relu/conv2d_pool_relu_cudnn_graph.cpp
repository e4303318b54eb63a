// conv2d_pool_relu cudnn_graph_fused: forward is one graph of cuDNN's (device/cudnn_graph.h), for which it
// compiles a kernel: convolution, bias, maximum of each window, relu. z is not stored: of each window a
// byte is kept, the position of its maximum. backward_filter begins with two graphs that make dz of it:
// relu's gradient, then the pooling's. With dz both backward passes are conv2d's own, by cudnn_graph.
#include <algorithm>
#include <memory>

#include "core/arena.h"
#include "device/graph_plans.h"
#include "kernels/convert.h"
#include "layers/composed_block.h"
#include "layers/conv2d/conv2d_algorithms.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/pool2d/pool2d_settings.h"

namespace duet {
namespace {

using gpu::PlannedGraph;
using GraphTensor = PlannedGraph::Tensor;

struct Forward {
  Forward(const Conv2dPoolReluProblem& problem, bool leaves_positions, GraphTensor first)
      : whole(first) {
    const Conv2dProblem& conv = problem.conv;
    gpu::OperationGraph& g = whole.graph;
    x = g.tensor(problem.x_desc()), w = g.tensor(as_stored(conv, conv.w_desc()));
    y = g.tensor(problem.y_desc());
    if (leaves_positions) positions = g.positions(problem.y_desc());
    const auto sums = g.intermediate(problem.z_desc());
    auto z = sums;
    g.convolve(convolution_settings(conv), x, w, sums);
    if (conv.bias) {
      bias = g.tensor(TensorDesc{{1, conv.k, 1, 1}, DType::kFloat32, conv.layout});
      z = g.intermediate(problem.z_desc());
      g.combine(CUDNN_POINTWISE_ADD, sums, bias, z);
    }
    const auto largest = g.intermediate(problem.y_desc());
    g.pool(pooling_settings(problem.pool, CUDNN_POOLING_MAX), z, largest, positions);
    g.apply(CUDNN_POINTWISE_RELU_FWD, largest, y);
  }
  PlannedGraph whole;
  GraphTensor x, w, y, bias = 0, positions = 0;
};

struct ReluBackward {
  explicit ReluBackward(const Conv2dPoolReluProblem& problem) {
    gpu::OperationGraph& g = whole.graph;
    y = g.tensor(problem.y_desc()), dy = g.tensor(problem.y_desc());
    d = g.tensor(problem.y_desc());
    g.relu_backward(y, dy, d);
  }
  PlannedGraph whole{201};
  GraphTensor y, dy, d;
};

struct PoolBackward {
  explicit PoolBackward(const Conv2dPoolReluProblem& problem) {
    gpu::OperationGraph& g = whole.graph;
    d = g.tensor(problem.y_desc()), dz = g.tensor(problem.z_desc());
    positions = g.positions(problem.y_desc());
    g.pool_backward(pooling_settings(problem.pool, CUDNN_POOLING_MAX), d, dz, positions);
  }
  PlannedGraph whole{301};
  GraphTensor d, dz, positions;
};

class Conv2dPoolReluCudnnGraph : public Conv2dPoolReluImpl {
 public:
  Conv2dPoolReluCudnnGraph(const Conv2dPoolReluProblem& problem, Context& context)
      : Conv2dPoolReluImpl(problem),
        conv_(entry_of(conv2d_impls(), "cudnn_graph").make(problem.conv, context)) {
    positions_ = state_.reserve(static_cast<size_t>(problem.y_desc().elements()));
    dz_ = state_.reserve(problem.z_desc().bytes());
  }

  void prepare(Pass pass, Context& context) override {
    const std::string what = "conv2d_pool_relu cudnn_graph_fused " + problem_.to_string() + " " +
                             std::string(to_string(pass));
    const gpu::EngineLimits all = {.tensor_cores = true};
    if (pass == Pass::kForward) {
      training_ = std::make_unique<Forward>(problem_, true, 1);
      training_->whole.prepare(context, what, all);
      evaluation_ = std::make_unique<Forward>(problem_, false, 101);
      return evaluation_->whole.prepare(context, what + " evaluation", all);
    }
    conv_->prepare(pass, context);
    if (pass != Pass::kBackwardFilter) return;
    relu_ = std::make_unique<ReluBackward>(problem_);
    relu_->whole.prepare(context, what + " relu", {.tensor_cores = true, .most = 2});
    pool_ = std::make_unique<PoolBackward>(problem_);
    pool_->whole.prepare(context, what + " pool", {.tensor_cores = true, .most = 4});
  }

  size_t state_bytes() const override { return state_.bytes(); }
  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kForward) {
      return narrow_bytes() +
             std::max(training_->whole.workspace_bytes(), evaluation_->whole.workspace_bytes());
    }
    const size_t conv = conv_->workspace_bytes(pass);
    if (pass == Pass::kBackwardData) return conv;
    return std::max(conv, gradient_bytes() + std::max(relu_->whole.workspace_bytes(),
                                                      pool_->whole.workspace_bytes()));
  }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kForward) {
      return "training " + training_->whole.detail() + "; evaluation " +
             evaluation_->whole.detail();
    }
    if (pass == Pass::kBackwardData) return conv_->detail(pass);
    return "relu " + relu_->whole.detail() + "; pool " + pool_->whole.detail() + "; conv2d " +
           conv_->detail(pass);
  }
  std::vector<std::string> calls(Pass pass) const override {
    if (pass == Pass::kForward) return {"cudnnBackendExecute"};
    std::vector<std::string> all = conv_->calls(pass);
    if (pass == Pass::kBackwardFilter) all.insert(all.begin(), 2, "cudnnBackendExecute");
    return all;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y,
               const Tensor& state) override {
    const Forward& f = run.training ? *training_ : *evaluation_;
    void* weights = w.memory;
    if (narrow_bytes() > 0) {
      weights = run.workspace;
      queue_conversion(w.data<float>(), static_cast<bfloat16*>(weights), w.elements(),
                       run.stream());
    }
    std::vector<std::pair<GraphTensor, void*>> memory = {
        {f.x, x.memory}, {f.w, weights}, {f.y, y.memory}};
    if (f.bias) memory.emplace_back(f.bias, b.memory);
    if (f.positions) memory.emplace_back(f.positions, part(state, positions_));
    f.whole.run(run.context, memory, static_cast<char*>(run.workspace) + narrow_bytes());
  }

  void backward_filter(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                       const Tensor& state, const Tensor& dw, const Tensor& db) override {
    void* const d = run.workspace;
    void* const plan_workspace = static_cast<char*>(run.workspace) + gradient_bytes();
    relu_->whole.run(run.context, {{relu_->y, y.memory}, {relu_->dy, dy.memory}, {relu_->d, d}},
                     plan_workspace);
    pool_->whole.run(
        run.context,
        {{pool_->d, d}, {pool_->positions, part(state, positions_)}, {pool_->dz, part(state, dz_)}},
        plan_workspace);
    tensors_.x[0] = x;
    tensors_.dy[0] = {problem_.z_desc(), part(state, dz_)};
    tensors_.dw[0] = dw, tensors_.dw[1] = db;
    conv_->run(Pass::kBackwardFilter, run, tensors_);
  }
  void backward_data(const Run& run, const Tensor&, const Tensor&, const Tensor& state,
                     const Tensor& w, const Tensor& dx) override {
    tensors_.dy[0] = {problem_.z_desc(), part(state, dz_)};
    tensors_.w[0] = w, tensors_.dx[0] = dx;
    conv_->run(Pass::kBackwardData, run, tensors_);
  }

 private:
  static void* part(const Tensor& state, size_t offset) {
    return static_cast<char*>(state.memory) + offset;
  }
  /// Of the weights at the beginning of forward's workspace, in bf16.
  size_t narrow_bytes() const {
    if (problem_.dtype != DType::kBFloat16) return 0;
    return align_up(as_stored(problem_.conv, problem_.conv.w_desc()).bytes());
  }
  /// Of relu's gradient at the beginning of backward_filter's.
  size_t gradient_bytes() const { return align_up(problem_.y_desc().bytes()); }

  const std::unique_ptr<Implementation> conv_;
  std::unique_ptr<Forward> training_, evaluation_;
  std::unique_ptr<ReluBackward> relu_;
  std::unique_ptr<PoolBackward> pool_;
  ArenaPlan state_;
  size_t positions_ = 0, dz_ = 0;
  /// With room, so that nothing is allocated in a run.
  LayerTensors tensors_ = {.x = std::vector<Tensor>(1),
                           .y = std::vector<Tensor>(1),
                           .dx = std::vector<Tensor>(1),
                           .dy = std::vector<Tensor>(1),
                           .w = std::vector<Tensor>(2),
                           .dw = std::vector<Tensor>(2)};
};

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  const Conv2dProblem& conv = problem.conv;
  if (conv.math == Math::kFP32) {
    return "cuDNN fuses a pooling into convolutions on tensor cores alone, and 'math' is fp32";
  }
  if (conv.layout != Layout::kNHWC) return "cuDNN fuses a pooling in nhwc alone";
  if (conv.groups != 1) return "cuDNN fuses a pooling into convolutions without groups";
  const int together = problem.dtype == DType::kBFloat16 ? 8 : 4;
  if (conv.c % together != 0 || conv.k % together != 0) {
    return "takes channels in groups of " + std::to_string(together);
  }
  return part_unsupported("conv2d", conv2d_impls(), "cudnn_graph", conv, pass);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn_graph_fused() {
  return impl_entry<Conv2dPoolReluCudnnGraph>("cudnn_graph_fused", unsupported, gpu_dtypes());
}

}  // namespace duet
