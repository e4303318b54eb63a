// Lesson 42: programmatic dependent launch: a kernel starts while the one before it still runs.
#include "../lesson.h"

// region constants
constexpr int kCount = 1 << 16, kKernels = 200;
// end constants

// region kernel
/// One of a chain: adds 1 to every value.
__global__ void add_kernel(int* values) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;  // stands for all that needs no result
  cudaTriggerProgrammaticLaunchCompletion();            // the next kernel may be brought in now
  cudaGridDependencySynchronize();                      // what the one before wrote is there
  values[i] += 1;
}
// end kernel

// region launch
/// A launch with the attribute: "this kernel waits by itself for what it needs".
template <class... Parameters, class... Arguments>
cudaError_t launch(bool overlap, int blocks, int threads, cudaStream_t stream,
                   void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = overlap ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}
// end launch

/// The chain as a graph, so that the host's launches take no part in the time.
cudaGraphExec_t chain(cudaStream_t stream, bool overlap, int* values) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kKernels; ++i) {
    CHECK(launch(overlap, kCount / 256, 256, stream, add_kernel, values));
  }
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return executable;
}

// region slow
/// Lets the next kernel start at once, and writes its result a millisecond later.
__global__ void slow_kernel(int* value) {
  cudaTriggerProgrammaticLaunchCompletion();
  const long long begin = clock64();
  while (clock64() - begin < 2000000) {
  }
  *value = 1;
}
__global__ void read_kernel(const int* value, int* copy, bool waits) {
  if (waits) cudaGridDependencySynchronize();
  *copy = *reinterpret_cast<const volatile int*>(value);
}
// end slow

void teach() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  // region time
  double us[2];
  for (const bool overlap : {false, true}) {
    const lesson::Array<int> values(std::vector<int>(kCount, 5));
    const cudaGraphExec_t graph = chain(stream, overlap, values.data());
    CHECK(cudaGraphLaunch(graph, stream));
    lesson::compare(overlap ? "overlapping" : "one after the other", values.host(),
                    std::vector<int>(kCount, 5 + kKernels));
    us[overlap] = lesson::microseconds([&] { CHECK(cudaGraphLaunch(graph, stream)); }, stream, 5);
    CHECK(cudaGraphExecDestroy(graph));
  }
  std::printf("%d kernels of %d values: %.2f us each, overlapping %.2f us: %.2f times as fast\n",
              kKernels, kCount, us[0] / kKernels, us[1] / kKernels, us[0] / us[1]);
  // end time

  // region forgotten
  int seen[2];
  cudaFuncAttributes
      loaded;  // loads the kernel: a first launch would load it, and wait for the GPU
  CHECK(cudaFuncGetAttributes(&loaded, read_kernel));
  for (const bool waits : {false, true}) {
    const lesson::Array<int> value(std::vector<int>{0}), copy(1);
    CHECK(cudaDeviceSynchronize());
    CHECK(launch(false, 1, 1, stream, slow_kernel, value.data()));
    CHECK(launch(true, 1, 1, stream, read_kernel, value.data(), copy.data(), waits));
    seen[waits] = copy.host()[0];
  }
  std::printf("read without cudaGridDependencySynchronize: %d, with it: %d\n", seen[0], seen[1]);
  lesson::expect("without it the old value is read, and nothing complains",
                 seen[0] == 0 && seen[1] == 1);
  // end forgotten

  // region wrong
  const lesson::Array<int> values(kCount);
  SHOULD_FAIL(launch(true, kCount / 2048, 2048, stream, add_kernel, values.data()),
              cudaErrorInvalidValue);
  // end wrong
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  return lesson::run("Lesson 42: programmatic dependent launch",
                     "Runs a chain of 200 small kernels one after the other and overlapping, and "
                     "shows what happens when a kernel forgets to wait.",
                     teach, {9, 0, "earlier GPUs start a kernel when the one before has ended"});
}
