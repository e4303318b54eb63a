// Lesson 01, exercise 1: two handles with a stream each; an event puts the second behind the first.
#define main main_of_the_lesson
#include "handle.cpp"
#undef main

void answer() {
  // region answer
  cudnnHandle_t handles[2];
  cudaStream_t streams[2];
  for (int i = 0; i < 2; ++i) {
    CHECK(cudnnCreate(&handles[i]));
    CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    CHECK(cudnnSetStream(handles[i], streams[i]));
  }
  cudaEvent_t tripled;
  CHECK(cudaEventCreateWithFlags(&tripled, cudaEventDisableTiming));

  cudnnTensorDescriptor_t tensor;
  CHECK(cudnnCreateTensorDescriptor(&tensor));
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 4, 5));
  const std::vector<float> x = lesson::random_values(2 * 3 * 4 * 5, 1);
  const lesson::Array<float> memory(x), other(x);
  const float three = 3, ten = 10;
  CHECK(cudnnScaleTensor(handles[0], tensor, other.data(), &three));  // loads the kernels
  CHECK(cudnnSetTensor(handles[1], tensor, other.data(), &ten));
  CHECK(cudaDeviceSynchronize());

  std::atomic<bool> released = false;
  CHECK(cudaLaunchHostFunc(streams[0], wait_for_release, &released));
  CHECK(cudnnScaleTensor(handles[0], tensor, memory.data(), &three));
  CHECK(cudaEventRecord(tripled, streams[0]));
  CHECK(cudaStreamWaitEvent(streams[1], tripled));                 // without this: 10, or 3, or 30
  CHECK(cudnnSetTensor(handles[1], tensor, memory.data(), &ten));  // must come last
  lesson::expect("the second stream waits for the first",
                 cudaStreamQuery(streams[1]) == cudaErrorNotReady);
  released = true;
  lesson::compare("10, not 30", memory.host(), std::vector<float>(x.size(), 10));
  // end answer

  CHECK(cudaEventDestroy(tripled));
  CHECK(cudnnDestroyTensorDescriptor(tensor));
  for (int i = 0; i < 2; ++i) {
    CHECK(cudnnDestroy(handles[i]));
    CHECK(cudaStreamDestroy(streams[i]));
  }
}

int main() {
  return lesson::run("Lesson 01, answer 1", "Two handles, two streams, and an event between them.",
                     answer);
}
