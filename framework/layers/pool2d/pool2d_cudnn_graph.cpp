// max_pool2d, avg_pool2d and global_avg_pool2d, cudnn_graph: cuDNN's graph API (device/cudnn_graph.h),
// CUDNN_BACKEND_OPERATION_RESAMPLE_FWD and -_BWD. In NHWC cuDNN compiles kernels; those of a maximum
// keep the position of each window's largest value, a byte, from forward to backward. In NCHW it has one
// engine, which keeps nothing: backward finds the maxima again in x and y.
#include <memory>

#include "core/error.h"
#include "device/graph_plans.h"
#include "layers/pool2d/pool2d_settings.h"

namespace duet {
namespace {

using gpu::PlannedGraph;

gpu::PoolingSettings settings_of(const Pool2dProblem& problem) {
  return pooling_settings(problem, CUDNN_POOLING_MAX);
}

bool is_max(const Pool2dProblem& problem) { return problem.kind == PoolKind::kMax; }
bool keeps_positions(const Pool2dProblem& problem) {
  return is_max(problem) && problem.layout == Layout::kNHWC;
}

struct Forward {
  Forward(const Pool2dProblem& problem, bool leaves_positions, PlannedGraph::Tensor first)
      : whole(first) {
    x = whole.graph.tensor(problem.x_desc()), y = whole.graph.tensor(problem.y_desc());
    if (leaves_positions) positions = whole.graph.positions(problem.y_desc());
    whole.graph.pool(settings_of(problem), x, y, positions);
  }
  void run(const Run& run, const Tensor& x_memory, const Tensor& y_memory, void* state) const {
    std::vector<std::pair<PlannedGraph::Tensor, void*>> memory = {{x, x_memory.memory},
                                                                  {y, y_memory.memory}};
    if (positions) memory.emplace_back(positions, state);
    whole.run(run.context, memory, run.workspace);
  }
  PlannedGraph whole;
  PlannedGraph::Tensor x, y, positions = 0;
};

struct Backward {
  explicit Backward(const Pool2dProblem& problem) {
    gpu::OperationGraph& g = whole.graph;
    dy = g.tensor(problem.y_desc()), dx = g.tensor(problem.x_desc());
    if (keeps_positions(problem)) {
      positions = g.positions(problem.y_desc());
    } else if (is_max(problem)) {
      x = g.tensor(problem.x_desc()), y = g.tensor(problem.y_desc());
    }
    g.pool_backward(settings_of(problem), dy, dx, positions, x, y);
  }
  PlannedGraph whole{201};
  PlannedGraph::Tensor dy, dx, x = 0, y = 0, positions = 0;
};

class Pool2dCudnnGraph : public Pool2dImpl {
 public:
  using Pool2dImpl::Pool2dImpl;

  void prepare(Pass pass, Context& context) override {
    const std::string what = "pool2d cudnn_graph " +
                             std::string(is_max(problem_) ? "max " : "avg ") +
                             problem_.to_string() + " " + std::string(to_string(pass));
    // There are no products.
    const gpu::EngineLimits limits = {.tensor_cores = true, .most = 4};
    if (pass == Pass::kBackward) {
      backward_ = std::make_unique<Backward>(problem_);
      return backward_->whole.prepare(context, what, limits);
    }
    forward_ = std::make_unique<Forward>(problem_, false, 1);
    forward_->whole.prepare(context, what, limits);
    if (!keeps_positions(problem_)) return;
    training_ = std::make_unique<Forward>(problem_, true, 101);
    training_->whole.prepare(context, what + " with positions", limits);
  }

  size_t state_bytes() const override {
    return keeps_positions(problem_) ? static_cast<size_t>(problem_.y_desc().elements()) : 0;
  }
  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kBackward) return backward_->whole.workspace_bytes();
    return std::max(forward_->whole.workspace_bytes(),
                    training_ ? training_->whole.workspace_bytes() : 0);
  }
  std::string detail(Pass pass) const override {
    if (pass == Pass::kBackward) return backward_->whole.detail();
    if (!training_) return forward_->whole.detail();
    return "training " + training_->whole.detail() + "; evaluation " + forward_->whole.detail();
  }
  std::vector<std::string> calls(Pass) const override { return {"cudnnBackendExecute"}; }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) override {
    const Forward& chosen = training_ && run.training ? *training_ : *forward_;
    chosen.run(run, x, y, state.memory);
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& state, const Tensor& dx) override {
    const Backward& b = *backward_;
    std::vector<std::pair<PlannedGraph::Tensor, void*>> memory = {{b.dy, dy.memory},
                                                                  {b.dx, dx.memory}};
    if (b.positions) memory.emplace_back(b.positions, state.memory);
    if (b.x) memory.insert(memory.end(), {{b.x, x.memory}, {b.y, y.memory}});
    b.whole.run(run.context, memory, run.workspace);
  }

 private:
  std::unique_ptr<Forward> forward_, training_;
  std::unique_ptr<Backward> backward_;
};

}  // namespace

ImplEntry<Pool2dProblem> pool2d_cudnn_graph() {
  return impl_entry<Pool2dCudnnGraph>("cudnn_graph", supports_all, gpu_dtypes());
}

}  // namespace duet
