// Lesson 13: cuDNN's graph API in C: one convolution, from its tensors to the plan that runs it.
#include <cudnn.h>

#include "../lesson.h"

using lesson::execute, lesson::Part;

// region tensor
constexpr int kN = 8, kC = 32, kH = 28, kK = 64, kR = 3;  // 3x3, padding 1, NHWC, float32

/// Sizes n c h w, in NHWC.
Part tensor(int64_t id, int64_t n, int64_t c, int64_t h, int64_t w) {
  return Part(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{n, c, h, w})
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{c * h * w, 1, c * w, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .finalize();
}
// end tensor

// region operation
Part convolve(const Part& x, const Part& w, const Part& y) {
  const std::vector<int64_t> ones = {1, 1};
  const Part how = Part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
                       .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                       .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
                       .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
                       .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, ones)
                       .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, ones)
                       .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, ones)
                       .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, ones)
                       .finalize();
  return Part(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, how.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y.get())
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1.0f)
      .set(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0.0f)
      .finalize();
}
// end operation

// region compile
/// A configuration made ready for this GPU; not every one can be.
cudnnStatus_t compile(cudnnHandle_t cudnn, const Part& configuration, Part& plan) {
  plan = Part(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnn)
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
  return cudnnBackendFinalize(plan.get());
}
// end compile

/// The convolution in NHWC (filters K R S C).
std::vector<double> plain(const std::vector<float>& x, const std::vector<float>& w) {
  std::vector<double> y;
  for (int i = 0; i < kN * kH * kH * kK; ++i) {
    const int n = i / (kH * kH * kK), p = i / (kH * kK) % kH, q = i / kK % kH, k = i % kK;
    double sum = 0;
    for (int r = 0; r < kR; ++r) {
      for (int s = 0; s < kR; ++s) {
        const int row = p + r - 1, column = q + s - 1;
        if (row < 0 || row >= kH || column < 0 || column >= kH) continue;
        for (int c = 0; c < kC; ++c) {
          sum += double(x[((n * kH + row) * kH + column) * kC + c]) *
                 w[((k * kR + r) * kR + s) * kC + c];
        }
      }
    }
    y.push_back(sum);
  }
  return y;
}

void teach() {
  const lesson::Handle cudnn;
  // region graph
  enum Id { kX = 1, kFilter, kY };
  const Part tx = tensor(kX, kN, kC, kH, kH), tw = tensor(kFilter, kK, kC, kR, kR);
  const Part ty = tensor(kY, kN, kK, kH, kH), convolution = convolve(tx, tw, ty);
  const Part graph = Part(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                         .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, convolution.get())
                         .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn.get())
                         .finalize();
  // end graph

  // region plan
  const Part heuristics = Part(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                              .set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
                              .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A)
                              .finalize();
  const std::vector<Part> configurations =
      heuristics.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 8);
  Part plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  size_t i = 0;  // the first that compiles
  while (compile(cudnn, configurations.at(i), plan) != CUDNN_STATUS_SUCCESS) ++i;
  const lesson::Array<char> workspace(plan.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  std::printf("number %zu of %zu: engine %lld, %zu bytes of workspace\n", i, configurations.size(),
              lesson::engine_of(configurations[i]), workspace.bytes());
  // end plan

  // region run
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kR * kR * kC, 2);
  const lesson::Array<float> xs(x), ws(w), ys(static_cast<size_t>(kN) * kH * kH * kK);
  const auto run = [&] {
    CHECK(execute(cudnn, plan, {kX, kFilter, kY}, {xs.data(), ws.data(), ys.data()},
                  workspace.data()));
  };
  run();
  lesson::compare("y", ys.host(), plain(x, w), 0.1);  // the engine may round to TF32
  std::printf("one call of execute: %.1f us\n", lesson::microseconds(run));
  // end run

  // region wrong
  // No memory for y; a tensor without sizes; a number of another type.
  SHOULD_FAIL(execute(cudnn, plan, {kX, kFilter}, {xs.data(), ws.data()}, workspace.data()),
              CUDNN_STATUS_BAD_PARAM);
  const Part unfinished(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  SHOULD_FAIL(cudnnBackendFinalize(unfinished.get()), CUDNN_STATUS_BAD_PARAM);
  SHOULD_FAIL(cudnnBackendSetAttribute(unfinished.get(), CUDNN_ATTR_TENSOR_UNIQUE_ID,
                                       CUDNN_TYPE_FLOAT, 1, x.data()),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 13: the graph API",
                     "Describes a convolution as a graph, makes a plan of it, and runs the plan.",
                     teach);
}
