// linear, cudnn_graph: each pass is a graph of cuDNN's (device/cudnn_graph.h) around one product of
// matrices, for which cuDNN compiles a kernel: forward has the bias and linear_relu's relu in it, db is a
// graph of its own. cuDNN names matrices by rows and columns with strides, so that nothing is moved:
//   forward          y[n,out]   = x w^T    w read as in x out
//   backward_data    dx[n,in]   = dy w
//   backward_filter  dw[out,in] = dy^T x   dy read as out x n
// All of its engines for products use tensor cores. In bf16 sums, the bias, dw and db are float32; the
// weights are float32, and rounded into the workspace at each call.
#include <algorithm>
#include <map>
#include <memory>

#include "core/arena.h"
#include "device/graph_plans.h"
#include "kernels/convert.h"
#include "layers/linear/linear.h"

namespace duet {
namespace {

using gpu::GraphShape;
using gpu::PlannedGraph;

constexpr gpu::EngineLimits kLimits = {.tensor_cores = true, .most = 6};

GraphShape matrix(int64_t rows, int64_t columns) {
  return {{1, rows, columns}, {rows * columns, columns, 1}};
}
/// Of a matrix that lies in memory as columns x rows.
GraphShape transposed(int64_t rows, int64_t columns) {
  return {{1, rows, columns}, {rows * columns, 1, rows}};
}

/// The product of a pass: c = a b.
struct PassGraph {
  PassGraph(const LinearProblem& problem, Pass pass)
      : whole(pass == Pass::kForward          ? 1
              : pass == Pass::kBackwardFilter ? 201
                                              : 301) {
    const auto [n, in, out] = std::tuple(problem.n, problem.in, problem.out);
    const DType stored = problem.dtype, sums = accumulator_of(stored);
    gpu::OperationGraph& g = whole.graph;
    if (pass == Pass::kBackwardData) {
      a = g.tensor(matrix(n, out), stored), b = g.tensor(matrix(out, in), stored);
      c = g.tensor(matrix(n, in), stored);
      g.multiply(a, b, c);
      return;
    }
    if (pass == Pass::kBackwardFilter) {
      a = g.tensor(transposed(out, n), stored), b = g.tensor(matrix(n, in), stored);
      c = g.tensor(matrix(out, in), sums);
      g.multiply(a, b, c);
      return;
    }
    a = g.tensor(matrix(n, in), stored), b = g.tensor(transposed(in, out), stored);
    c = g.tensor(matrix(n, out), stored);
    const auto between = [&] { return g.intermediate(matrix(n, out)); };
    const auto products = problem.bias || problem.relu ? between() : c;
    g.multiply(a, b, products);
    auto biased = products;
    if (problem.bias) {
      bias = g.tensor(matrix(1, out), sums);
      biased = problem.relu ? between() : c;
      g.combine(CUDNN_POINTWISE_ADD, products, bias, biased);
    }
    if (problem.relu) g.apply(CUDNN_POINTWISE_RELU_FWD, biased, c);
  }

  PlannedGraph whole;
  PlannedGraph::Tensor a, b, c, bias = 0;
};

/// db, the sums of dy's columns: to cuDNN those of an image's channels.
struct BiasGraph {
  explicit BiasGraph(const LinearProblem& problem) {
    const auto image = [&](int64_t n, DType dtype) {
      return whole.graph.tensor(TensorDesc{{n, problem.out, 1, 1}, dtype, Layout::kNHWC});
    };
    dy = image(problem.n, problem.dtype), db = image(1, accumulator_of(problem.dtype));
    whole.graph.sum(dy, db);
  }

  PlannedGraph whole{101};
  PlannedGraph::Tensor dy, db;
};

class LinearCudnnGraph : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  void prepare(Pass pass, Context& context) override {
    const std::string what = "linear cudnn_graph " + problem_.to_string() +
                             (problem_.relu ? " relu" : "") + " " + std::string(to_string(pass));
    products_[pass] = std::make_unique<PassGraph>(problem_, pass);
    products_[pass]->whole.prepare(context, what, kLimits);
    if (pass != Pass::kBackwardFilter || !problem_.bias) return;
    bias_ = std::make_unique<BiasGraph>(problem_);
    bias_->whole.prepare(context, what + " bias", kLimits);
  }

  size_t workspace_bytes(Pass pass) const override {
    const size_t bytes = narrow_bytes(pass) + products_.at(pass)->whole.workspace_bytes();
    if (pass != Pass::kBackwardFilter || !bias_) return bytes;
    return std::max(bytes, bias_->whole.workspace_bytes());  // one after the other
  }
  std::string detail(Pass pass) const override {
    std::string text = products_.at(pass)->whole.detail();
    if (narrow_bytes(pass) > 0) text += "; weights in bf16";
    if (pass == Pass::kBackwardFilter && bias_) text += "; db by " + bias_->whole.detail();
    return text;
  }
  std::vector<std::string> calls(Pass pass) const override {
    const size_t graphs = pass == Pass::kBackwardFilter && problem_.bias ? 2 : 1;
    return std::vector<std::string>(graphs, "cudnnBackendExecute");
  }

  void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    multiply(Pass::kForward, run, x.memory, weights(run, w), y.memory, b.memory);
  }
  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    multiply(Pass::kBackwardData, run, dy.memory, weights(run, w), dx.memory);
  }
  void backward_filter(const Run& run, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    multiply(Pass::kBackwardFilter, run, dy.memory, x.memory, dw.memory);
    if (!db) return;
    bias_->whole.run(run.context, {{bias_->dy, dy.memory}, {bias_->db, db.memory}}, run.workspace);
  }

 private:
  /// What the weights take at the beginning of the workspace in bf16.
  size_t narrow_bytes(Pass pass) const {
    if (problem_.dtype != DType::kBFloat16 || pass == Pass::kBackwardFilter) return 0;
    return align_up(sizeof(bfloat16) * static_cast<size_t>(problem_.in) * problem_.out);
  }
  void* weights(const Run& run, const Tensor& w) const {
    if (problem_.dtype != DType::kBFloat16) return w.memory;
    auto* const narrow = static_cast<bfloat16*>(run.workspace);
    queue_conversion(w.data<float>(), narrow, w.elements(), run.stream());
    return narrow;
  }
  void multiply(Pass pass, const Run& run, void* a, void* b, void* c, void* bias = nullptr) const {
    const PassGraph& chosen = *products_.at(pass);
    std::vector<std::pair<PlannedGraph::Tensor, void*>> memory = {
        {chosen.a, a}, {chosen.b, b}, {chosen.c, c}};
    if (chosen.bias) memory.emplace_back(chosen.bias, bias);
    chosen.whole.run(run.context, memory, static_cast<char*>(run.workspace) + narrow_bytes(pass));
  }

  std::map<Pass, std::unique_ptr<PassGraph>> products_;
  std::unique_ptr<BiasGraph> bias_;
};

std::optional<std::string> unsupported(const LinearProblem& problem, Pass) {
  if (problem.math != Math::kFP32) return {};
  return "cuDNN's graph API multiplies matrices on tensor cores alone, and 'math' is fp32";
}

}  // namespace

ImplEntry<LinearProblem> linear_cudnn_graph() {
  return impl_entry<LinearCudnnGraph>("cudnn_graph", unsupported, gpu_dtypes());
}

}  // namespace duet
