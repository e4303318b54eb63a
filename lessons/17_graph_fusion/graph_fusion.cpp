// Lesson 17: operations that cuDNN's graph API runs as one kernel: a convolution, bias and relu.
#include <cuda_fp16.h>
#include <cudnn.h>

#include "../lesson.h"

using lesson::execute, lesson::Part;
using Operations = std::vector<cudnnBackendDescriptor_t>;

// region tensor
constexpr int kN = 8, kC = 32, kH = 28, kK = 64;  // 1x1 filters, NHWC, half precision

/// Sizes n c h h, in NHWC. A virtual tensor has no memory: it passes from operation to operation.
Part tensor(int64_t id, int64_t n, int64_t c, int64_t h, bool is_virtual = false) {
  return Part(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
      .set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, is_virtual ? CUDNN_DATA_FLOAT : CUDNN_DATA_HALF)
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<int64_t>{n, c, h, h})
      .set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<int64_t>{c * h * h, 1, c * h, c})
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16})
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, is_virtual)
      .finalize();
}
// end tensor

/// As in lesson 13, without padding.
Part convolve(const Part& x, const Part& w, const Part& y) {
  const std::vector<int64_t> none = {0, 0}, ones = {1, 1};
  const Part how = Part(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)
                       .set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT)
                       .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CROSS_CORRELATION)
                       .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, int64_t{2})
                       .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, none)
                       .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, none)
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
// region pointwise
/// y = mode(x), or mode(x, b).
Part pointwise(cudnnPointwiseMode_t mode, const Part& x, const Part* b, const Part& y) {
  const Part how = Part(CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
                       .set(CUDNN_ATTR_POINTWISE_MODE, mode)
                       .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT)
                       .finalize();
  Part operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how.get())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x.get())
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y.get());
  if (b) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b->get());
  return operation.finalize();
}
// end pointwise

// region plan
/// The first configuration that compiles becomes `plan`; CUDNN_STATUS_NOT_SUPPORTED if there is none.
cudnnStatus_t make_plan(cudnnHandle_t cudnn, const Operations& operations, Part& plan) {
  const Part graph = Part(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                         .set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operations)
                         .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, cudnn)
                         .finalize();
  Part heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A);
  const cudnnStatus_t status = cudnnBackendFinalize(heuristics.get());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  for (const Part& configuration :
       heuristics.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, 8)) {
    plan = Part(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, cudnn)
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration.get());
    if (cudnnBackendFinalize(plan.get()) != CUDNN_STATUS_SUCCESS) continue;
    std::printf("%zu operations: engine %lld\n", operations.size(),
                lesson::engine_of(configuration));
    return CUDNN_STATUS_SUCCESS;
  }
  return CUDNN_STATUS_NOT_SUPPORTED;
}
// end plan

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

void teach() {
  const lesson::Handle cudnn;
  // region graph
  enum Id { kX = 1, kFilter, kBias, kY, kSum, kBiased };
  const Part tx = tensor(kX, kN, kC, kH), tw = tensor(kFilter, kK, kC, 1);
  const Part tb = tensor(kBias, 1, kK, 1), ty = tensor(kY, kN, kK, kH);
  const Part sum = tensor(kSum, kN, kK, kH, true), biased = tensor(kBiased, kN, kK, kH, true);
  const Part convolution = convolve(tx, tw, sum);
  const Part add = pointwise(CUDNN_POINTWISE_ADD, sum, &tb, biased);
  const Part relu = pointwise(CUDNN_POINTWISE_RELU_FWD, biased, nullptr, ty);
  Part plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  CHECK(make_plan(cudnn, {convolution.get(), add.get(), relu.get()}, plan));
  // end graph

  // region run
  const auto x = lesson::random_values(kN * kH * kH * kC, 1);
  const auto w = lesson::random_values(kK * kC, 2), b = lesson::random_values(kK, 3);
  std::vector<double> expected = plain(x, w, b);
  for (double& value : expected) value = std::max(0.0, value);
  const lesson::Array<__half> xs(lesson::halves(x)), ws(lesson::halves(w)), bs(lesson::halves(b));
  const lesson::Array<__half> ys(expected.size());
  const lesson::Array<char> workspace(plan.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  const double us = lesson::microseconds([&] {
    CHECK(execute(cudnn, plan, {kX, kFilter, kBias, kY},
                  {xs.data(), ws.data(), bs.data(), ys.data()}, workspace.data()));
  });
  lesson::compare("relu(convolution(x) + b)", lesson::floats(ys.host()), expected, 0.02);
  std::printf("one call of execute: %.1f us\n", us);
  // end run

  // region wrong
  // Two convolutions, one behind the other: a valid graph, for which there is no kernel.
  const Part second = tensor(7, kC, kK, 1), last = tensor(8, kN, kC, kH);
  const Part behind = convolve(biased, second, last);
  SHOULD_FAIL(make_plan(cudnn, {convolution.get(), add.get(), behind.get()}, plan),
              CUDNN_STATUS_NOT_SUPPORTED);
  // end wrong
}

int main() {
  return lesson::run("Lesson 17: fusion in the graph API",
                     "Runs a convolution, bias and relu as one kernel; then asks for two "
                     "convolutions in one, which no engine can.",
                     teach, {8, 0, "cuDNN compiles fused kernels for Ampere and newer"});
}
