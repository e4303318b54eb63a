// Lesson 01: the handle, its stream, and the version.
#include <cudnn.h>

#include <atomic>
#include <thread>

#include "../lesson.h"

// region hold
/// Keeps a stream waiting until `released` is set: the host function is work of the stream.
void wait_for_release(void* released) {
  while (!static_cast<std::atomic<bool>*>(released)->load()) std::this_thread::yield();
}
// end hold

void teach() {
  // region version
  std::printf("compiled for cuDNN %d, running with cuDNN %zu, which was built for CUDA %zu\n",
              CUDNN_VERSION, cudnnGetVersion(), cudnnGetCudartVersion());
  lesson::expect("the library has the header's major version",
                 cudnnGetVersion() / 10000 == CUDNN_MAJOR);
  // end version

  // region create
  cudnnHandle_t cudnn;
  const auto seconds_before = lesson::host_seconds();
  CHECK(cudnnCreate(&cudnn));
  std::printf("cudnnCreate took %.1f ms: once a program, not once a call\n",
              1000 * (lesson::host_seconds() - seconds_before));
  cudaStream_t stream, of_handle;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudnnSetStream(cudnn, stream));
  CHECK(cudnnGetStream(cudnn, &of_handle));
  lesson::expect("the handle has our stream", of_handle == stream);
  // end create

  cudnnTensorDescriptor_t tensor;
  CHECK(cudnnCreateTensorDescriptor(&tensor));
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 4, 5));

  // region queued
  const std::vector<float> x = lesson::random_values(2 * 3 * 4 * 5, 1);
  const lesson::Array<float> memory(x);
  const float two = 2, three = 3;
  CHECK(cudnnScaleTensor(cudnn, tensor, memory.data(), &two));  // x = 2 x; loads the kernel
  CHECK(cudaStreamSynchronize(stream));

  std::atomic<bool> released = false;
  CHECK(cudaLaunchHostFunc(stream, wait_for_release, &released));  // the stream is busy from here
  CHECK(cudnnScaleTensor(cudnn, tensor, memory.data(), &three));   // and times 3, but not yet
  lesson::expect("cuDNN's call returned before its work was done",
                 cudaStreamQuery(stream) == cudaErrorNotReady);
  released = true;
  CHECK(cudaStreamSynchronize(stream));
  // end queued

  // region plain
  std::vector<float> expected = x;
  for (float& value : expected) value *= 6;
  lesson::compare("2 * 3 x", memory.host(), expected);
  // end plain

  // region wrong
  cudnnTensorDescriptor_t smaller;
  CHECK(cudnnCreateTensorDescriptor(&smaller));
  CHECK(cudnnSetTensor4dDescriptor(smaller, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 4, 4));
  SHOULD_FAIL(
      cudnnTransformTensor(cudnn, &two, tensor, memory.data(), &two, smaller, memory.data()),
      CUDNN_STATUS_BAD_PARAM);
  SHOULD_FAIL(cudnnSetStream(nullptr, stream), CUDNN_STATUS_BAD_PARAM);
  // end wrong
  lesson::compare("a call that is refused changes nothing", memory.host(), expected);

  CHECK(cudnnDestroyTensorDescriptor(smaller));
  CHECK(cudnnDestroyTensorDescriptor(tensor));
  CHECK(cudnnDestroy(cudnn));
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  return lesson::run("Lesson 01: the handle",
                     "Creates a handle, gives it a stream, multiplies a tensor on that stream "
                     "and shows that the call returns before its work is done.",
                     teach);
}
