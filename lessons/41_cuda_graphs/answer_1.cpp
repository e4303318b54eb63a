// Lesson 41, exercise 1: a factor that changes from launch to launch, read from memory of the GPU.
#include <cublas_v2.h>

#include "../lesson.h"

void answer() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  cublasHandle_t cublas;
  CHECK(cublasCreate(&cublas));
  CHECK(cublasSetStream(cublas, stream));
  const int size = 16;
  const auto a = lesson::random_values(size * size, 1), b = lesson::random_values(size * size, 2);
  const lesson::Array<float> as(a), bs(b), cs(a.size());
  // region answer
  // With pointers of the GPU alpha and beta are read when the graph runs.
  const lesson::Array<float> factors(std::vector<float>{1, 0});
  CHECK(cublasSetPointerMode(cublas, CUBLAS_POINTER_MODE_DEVICE));
  const auto multiply = [&] {
    CHECK(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, factors.data(), bs.data(),
                      size, as.data(), size, factors.data() + 1, cs.data(), size));
  };
  multiply();
  CHECK(cudaStreamSynchronize(stream));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  multiply();
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  for (const float factor : {1.0f, -3.0f}) {
    CHECK(cudaMemcpyAsync(factors.data(), &factor, sizeof factor, cudaMemcpyHostToDevice, stream));
    CHECK(cudaGraphLaunch(executable, stream));
    // end answer
    std::vector<double> expected;
    for (int i = 0; i < size * size; ++i) {
      double sum = 0;
      for (int k = 0; k < size; ++k) sum += double(a[i / size * size + k]) * b[k * size + i % size];
      expected.push_back(factor * sum);
    }
    lesson::compare("one graph, another factor", cs.host(), expected, 1e-5);
  }
  CHECK(cudaGraphExecDestroy(executable));
  CHECK(cudaGraphDestroy(graph));
  CHECK(cublasDestroy(cublas));
  CHECK(cudaStreamDestroy(stream));
}

int main() { return lesson::run("Lesson 41, answer 1", "A factor in memory of the GPU.", answer); }
