// Lesson 16: cudnn-frontend, NVIDIA's C++ headers over the graph API: convolution, bias and relu.
#include <cuda_fp16.h>
#include <cudnn_frontend.h>

#include <memory>
#include <string>
#include <unordered_map>

#include "../lesson.h"

namespace fe = cudnn_frontend;

// region constants
constexpr int kN = 8, kC = 32, kH = 28, kK = 64, kR = 3;  // 3x3, padding 1, NHWC, half precision
// end constants

// region tensor
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// A tensor that is given memory: sizes n c h w, in NHWC. Error messages have the name.
Tensor input(fe::graph::Graph& graph, const char* name, int64_t n, int64_t c, int64_t h,
             int64_t w) {
  return graph.tensor(fe::graph::Tensor_attributes()
                          .set_name(name)
                          .set_dim({n, c, h, w})
                          .set_stride({c * h * w, 1, c * w, c}));
}
// end tensor

// region operations
Tensor convolve(fe::graph::Graph& graph, const Tensor& x, const Tensor& w) {
  fe::graph::Conv_fprop_attributes how;
  how.set_padding({1, 1}).set_stride({1, 1}).set_dilation({1, 1});
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

std::vector<__half> halves(const std::vector<float>& values) {
  std::vector<__half> rounded;
  for (const float value : values) rounded.push_back(__float2half(value));
  return rounded;
}
std::vector<float> floats(const std::vector<__half>& values) {
  std::vector<float> wide;
  for (const __half value : values) wide.push_back(__half2float(value));
  return wide;
}

/// The convolution in NHWC (filters K R S C) with bias; relu is the caller's.
std::vector<double> plain(const std::vector<__half>& x, const std::vector<__half>& w,
                          const std::vector<__half>& b) {
  std::vector<double> y;
  for (int i = 0; i < kN * kH * kH * kK; ++i) {
    const int n = i / (kH * kH * kK), p = i / (kH * kK) % kH, q = i / kK % kH, k = i % kK;
    double sum = __half2float(b[k]);
    for (int r = 0; r < kR; ++r) {
      for (int s = 0; s < kR; ++s) {
        const int row = p + r - 1, column = q + s - 1;
        if (row < 0 || row >= kH || column < 0 || column >= kH) continue;
        for (int c = 0; c < kC; ++c) {
          sum += double(__half2float(x[((n * kH + row) * kH + column) * kC + c])) *
                 __half2float(w[((k * kR + r) * kR + s) * kC + c]);
        }
      }
    }
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
  cudnnHandle_t cudnn;
  CHECK(cudnnCreate(&cudnn));
  const auto x = halves(lesson::random_values(kN * kH * kH * kC, 1));
  const auto w = halves(lesson::random_values(kK * kR * kR * kC, 2));
  const auto b = halves(lesson::random_values(kK, 3));
  const lesson::Array<__half> xs(x), ws(w), bs(b), ys(static_cast<size_t>(kN) * kH * kH * kK);

  // region graph
  fe::graph::Graph graph;
  set_types(graph);
  const Tensor tx = input(graph, "x", kN, kC, kH, kH), tw = input(graph, "w", kK, kC, kR, kR);
  const Tensor tb = input(graph, "b", 1, kK, 1, 1);
  const Tensor ty = relu(graph, add(graph, convolve(graph, tx, tw), tb));
  ty->set_output(true);  // this one has memory; the sums before it have none
  CHECK(build(cudnn, graph));
  print_plan(graph);
  // end graph

  // region run
  const lesson::Array<char> workspace(static_cast<size_t>(graph.get_workspace_size()));
  std::unordered_map<Tensor, void*> memory = {
      {tx, xs.data()}, {tw, ws.data()}, {tb, bs.data()}, {ty, ys.data()}};
  const auto run = [&] { CHECK(graph.execute(cudnn, memory, workspace.data())); };
  run();
  std::vector<double> expected = plain(x, w, b);
  for (double& value : expected) value = std::max(0.0, value);
  lesson::compare("convolution, bias and relu", floats(ys.host()), expected, 0.02);
  std::printf("one call of execute: %.1f us\n", lesson::microseconds(run));
  // end run

  // region wrong
  // The memory of b is missing.
  std::unordered_map<Tensor, void*> too_little = {
      {tx, xs.data()}, {tw, ws.data()}, {ty, ys.data()}};
  SHOULD_FAIL(graph.execute(cudnn, too_little, workspace.data()),
              fe::error_code_t::INVALID_VARIANT_PACK);

  // A tensor whose sizes nobody has set.
  fe::graph::Graph unfinished;
  set_types(unfinished);
  const Tensor filters = unfinished.tensor(fe::graph::Tensor_attributes().set_name("filters"));
  convolve(unfinished, input(unfinished, "x", kN, kC, kH, kH), filters)->set_output(true);
  SHOULD_FAIL(unfinished.validate(), fe::error_code_t::ATTRIBUTE_NOT_SET);

  // Two convolutions, one behind the other: a valid graph, for which there is no kernel.
  fe::graph::Graph two;
  set_types(two);
  const Tensor first =
      convolve(two, input(two, "x", kN, kC, kH, kH), input(two, "w", kK, kC, kR, kR));
  convolve(two, first, input(two, "second w", kC, kK, kR, kR))->set_output(true);
  CHECK(two.validate());
  const fe::error_t error = build(cudnn, two);
  std::printf("two convolutions: %s\n", lines_of(error.err_msg, 3).c_str());
  lesson::expect("no plan for two convolutions in one graph", error.is_bad());
  // end wrong
  CHECK(cudnnDestroy(cudnn));
}

int main() {
  return lesson::run("Lesson 16: cudnn-frontend",
                     "Describes convolution, bias and relu by NVIDIA's C++ headers, builds a plan "
                     "and runs it; then leaves out what a graph needs.",
                     teach, {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
