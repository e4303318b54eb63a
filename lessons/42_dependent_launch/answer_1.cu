// Lesson 42, exercise 1: weights that no kernel before writes are read before the wait.
#define main main_of_the_lesson
#include "dependent_launch.cu"
#undef main

// region answer
/// values = values * weight + 1. The weights do not come from the kernel before: their loads overlap it.
__global__ void weighted_kernel(int* values, const int* weights) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int weight = weights[i];
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
  values[i] = values[i] * weight + 1;
}
// end answer

void answer() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  std::vector<int> weights(kCount), expected(kCount, 1);
  for (int i = 0; i < kCount; ++i) weights[i] = i % 7;
  const lesson::Array<int> ws(weights), values(expected);
  for (int step = 0; step < 10; ++step) {
    CHECK(launch(true, kCount / 256, 256, stream, weighted_kernel, values.data(), ws.data()));
    for (int i = 0; i < kCount; ++i) expected[i] = expected[i] * weights[i] + 1;
  }
  lesson::compare("ten kernels", values.host(), expected);
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  return lesson::run("Lesson 42, answer 1", "Loads before the wait.", answer,
                     {9, 0, "earlier GPUs start a kernel when the one before has ended"});
}
