// Lesson 41: a CUDA graph of library calls: captured once, launched as a whole.
#include <cublas_v2.h>
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kLayers = 20, kRows = 32, kWidth = 48;  // x = relu(x w), 20 times
// end constants

/// The layers one after the other, in double.
std::vector<double> plain(const std::vector<float>& input, const std::vector<float>& w,
                          double scale) {
  std::vector<double> x(input.begin(), input.end());
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<double> y(x.size());
    for (size_t i = 0; i < y.size(); ++i) {
      double sum = 0;
      for (int k = 0; k < kWidth; ++k) {
        sum += x[i / kWidth * kWidth + k] * w[k * kWidth + i % kWidth];
      }
      y[i] = std::max(0.0, scale * sum);
    }
    x = y;
  }
  return x;
}

void teach() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cublasHandle_t cublas;
  cudnnHandle_t cudnn;
  CHECK(cublasCreate(&cublas));
  CHECK(cudnnCreate(&cudnn));
  CHECK(cublasSetStream(cublas, stream));
  CHECK(cudnnSetStream(cudnn, stream));
  cudnnTensorDescriptor_t tensor;
  cudnnActivationDescriptor_t relu;
  CHECK(cudnnCreateTensorDescriptor(&tensor));
  CHECK(
      cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kRows, kWidth, 1, 1));
  CHECK(cudnnCreateActivationDescriptor(&relu));
  CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));

  const auto x = lesson::random_values(kRows * kWidth, 1),
             w = lesson::random_values(kWidth * kWidth, 2);
  const lesson::Array<float> input(x), ws(w), a(x.size()), b(x.size());
  const float one = 1, zero = 0;
  float scale = 0.375f;  // keeps the values from growing
  // region layers
  const auto layers = [&] {
    CHECK(cudaMemcpyAsync(a.data(), input.data(), input.bytes(), cudaMemcpyDeviceToDevice, stream));
    for (int layer = 0; layer < kLayers; ++layer) {
      CHECK(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kWidth, kRows, kWidth, &scale, ws.data(),
                        kWidth, a.data(), kWidth, &zero, b.data(), kWidth));
      CHECK(cudnnActivationForward(cudnn, relu, &one, tensor, b.data(), &zero, tensor, a.data()));
    }
  };
  layers();  // once outside: libraries load kernels and take memory at their first call
  lesson::compare("call by call", a.host(), plain(x, w, scale), 1e-3);
  // end layers

  // region capture
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  size_t nodes = 0;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  layers();  // runs nothing: every call becomes a node
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaMemsetAsync(a.data(), 0xff, a.bytes(), stream));
  CHECK(cudaGraphLaunch(executable, stream));
  std::printf("a graph of %zu nodes\n", nodes);
  lesson::compare("the graph", a.host(), plain(x, w, scale), 1e-3);
  // end capture

  // region time
  const double calls_us = lesson::microseconds(layers, stream);
  const double graph_us =
      lesson::microseconds([&] { CHECK(cudaGraphLaunch(executable, stream)); }, stream);
  std::printf("%d calls %.1f us, the graph %.1f us: %.2f times as fast\n", 2 * kLayers + 1,
              calls_us, graph_us, calls_us / graph_us);
  // end time

  // region fixed
  // The data is read anew at each launch; what the host passed by value is part of the graph.
  const auto other = lesson::random_values(kRows * kWidth, 3);
  CHECK(cudaMemcpyAsync(input.data(), other.data(), input.bytes(), cudaMemcpyHostToDevice, stream));
  scale = 1;  // too late
  CHECK(cudaGraphLaunch(executable, stream));
  lesson::compare("new data, old scale", a.host(), plain(other, w, 0.375), 1e-3);
  // end fixed

  // region wrong
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  SHOULD_FAIL(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t broken = nullptr;
  SHOULD_FAIL(cudaStreamEndCapture(stream, &broken), cudaErrorStreamCaptureInvalidated);
  // end wrong
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cudnnDestroyActivationDescriptor(relu));
  CHECK(cudnnDestroyTensorDescriptor(tensor));
  CHECK(cudnnDestroy(cudnn));
  CHECK(cublasDestroy(cublas));
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  return lesson::run("Lesson 41: graphs with library calls inside",
                     "Captures 20 layers of cuBLAS and cuDNN calls in a graph, compares, and times "
                     "both.",
                     teach);
}
