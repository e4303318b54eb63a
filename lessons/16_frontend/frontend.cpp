// Lesson 16: cudnn-frontend, NVIDIA's C++ headers over the graph API: convolution, bias and relu.
#include <cuda_fp16.h>
#include <cudnn_frontend.h>

#include <memory>
#include <unordered_map>

#include "../lesson.h"

namespace fe = cudnn_frontend;

// region tensor
constexpr int kN = 8, kC = 32, kH = 28, kK = 64;  // 1x1 filters, NHWC, half precision
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// A tensor that is given memory: sizes n c h h, in NHWC. Error messages have the name.
Tensor input(fe::graph::Graph& graph, const char* name, int64_t n, int64_t c, int64_t h) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_dim({n, c, h, h})
                          .set_stride({c * h * h, 1, c * h, c}));
}
// end tensor

// region operations
Tensor convolve(fe::graph::Graph& graph, const Tensor& x, const Tensor& w) {
  fe::graph::Conv_fprop_attributes how;
  how.set_padding({0, 0}).set_stride({1, 1}).set_dilation({1, 1});
  return graph.conv_fprop(x, w, how);
}
Tensor add(fe::graph::Graph& graph, const Tensor& a, const Tensor& b) {
  return graph.pointwise(a, b,
                         fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::ADD));
}
Tensor relu(fe::graph::Graph& graph, const Tensor& a) {
  return graph.pointwise(a,
                         fe::graph::Pointwise_attributes().set_mode(fe::PointwiseMode_t::RELU_FWD));
}
// end operations

// region types
/// What the tensors have that say nothing else: half precision in memory, float between operations.
void set_types(fe::graph::Graph& graph) {
  graph.set_io_data_type(fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
}
// end types

// region build
/// From the description to a plan; the first error ends it.
fe::error_t build(cudnnHandle_t cudnn, fe::graph::Graph& graph) {
  fe::error_t error = graph.validate();  // deduces sizes and types, and checks them
  if (error.is_good()) error = graph.build_operation_graph(cudnn);  // makes the descriptors
  if (error.is_good()) error = graph.create_execution_plans({fe::HeurMode_t::A});
  if (error.is_good()) error = graph.check_support();  // is there one that runs on this GPU?
  if (error.is_good()) error = graph.build_plans();    // compiles the first that does
  return error;
}

/// What build() chose.
void print_plan(const fe::graph::Graph& graph) {
  std::string name;
  CHECK(graph.get_plan_name(name));
  std::printf("%lld configurations; plan %s, workspace %lld bytes\n",
              static_cast<long long>(graph.get_execution_plan_count()), name.c_str(),
              static_cast<long long>(graph.get_workspace_size()));
}
// end build

/// With 1x1 filters each pixel is a product of its own. relu is the caller's.
std::vector<double> plain(const std::vector<float>& x, const std::vector<float>& w,
                          const std::vector<float>& b) {
  std::vector<double> y;
  for (int i = 0; i < kN * kH * kH * kK; ++i) {
    double sum = b[i % kK];
    for (int c = 0; c < kC; ++c) sum += double(x[i / kK * kC + c]) * w[i % kK * kC + c];
    y.push_back(sum);
  }
  return y;
}

/// The first lines of a text. A message has all refused configurations, each with cuDNN's reasons.
std::string lines_of(const std::string& text, int count) {
  size_t end = 0;
  for (; count > 0 && end != std::string::npos; --count) end = text.find('\n', end + 1);
  return text.substr(0, end);
}

void teach() {
  const lesson::Handle cudnn;
  // region graph
  fe::graph::Graph graph;
  set_types(graph);
  const Tensor tx = input(graph, "x", kN, kC, kH), tw = input(graph, "w", kK, kC, 1);
  const Tensor tb = input(graph, "b", 1, kK, 1);
  const Tensor ty = relu(graph, add(graph, convolve(graph, tx, tw), tb));
  ty->set_output(true);  // this one has memory; the sums before it have none
  CHECK(build(cudnn, graph));
  print_plan(graph);
  // end graph

  // region run
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kC, 2), b = lesson::random_values(kK, 3);
  const lesson::Array<__half> xs(lesson::halves(x)), ws(lesson::halves(w)), bs(lesson::halves(b));
  const lesson::Array<__half> ys(static_cast<size_t>(kN) * kH * kH * kK);
  const lesson::Array<char> workspace(graph.get_workspace_size());
  std::unordered_map<Tensor, void*> memory = {
      {tx, xs.data()}, {tw, ws.data()}, {tb, bs.data()}, {ty, ys.data()}};
  const double us =
      lesson::microseconds([&] { CHECK(graph.execute(cudnn, memory, workspace.data())); });
  std::vector<double> expected = plain(x, w, b);
  for (double& value : expected) value = std::max(0.0, value);
  lesson::compare("convolution, bias and relu", lesson::floats(ys.host()), expected, 0.02);
  std::printf("one call of execute: %.1f us\n", us);
  // end run

  // region wrong
  memory.erase(tb);  // the memory of b is missing
  SHOULD_FAIL(graph.execute(cudnn, memory, workspace.data()),
              fe::error_code_t::INVALID_VARIANT_PACK);

  // A tensor whose sizes nobody has set.
  fe::graph::Graph unfinished;
  set_types(unfinished);
  const Tensor filters = unfinished.tensor(fe::graph::Tensor_attributes().set_name("filters"));
  convolve(unfinished, input(unfinished, "x", kN, kC, kH), filters)->set_output(true);
  SHOULD_FAIL(unfinished.validate(), fe::error_code_t::ATTRIBUTE_NOT_SET);

  // Two convolutions, one behind the other: a valid graph, for which there is no kernel.
  fe::graph::Graph two;
  set_types(two);
  const Tensor first = convolve(two, input(two, "x", kN, kC, kH), input(two, "w", kK, kC, 1));
  convolve(two, first, input(two, "second w", kC, kK, 1))->set_output(true);
  const fe::error_t error = build(cudnn, two);
  std::printf("two convolutions: %s\n", lines_of(error.err_msg, 3).c_str());
  lesson::expect("no plan for two convolutions in one graph", error.is_bad());
  // end wrong
}

int main() {
  return lesson::run("Lesson 16: cudnn-frontend",
                     "Runs convolution, bias and relu as NVIDIA's C++ headers describe them; then "
                     "leaves out what a graph needs.",
                     teach, {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
