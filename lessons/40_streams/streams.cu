// Lesson 40: streams and events: copies and kernels at the same time, and waiting without the host.
#include <atomic>
#include <thread>

#include "../lesson.h"

// region constants
constexpr int kCount = 1 << 23, kChunks = 8, kRounds = 1500;
// end constants

// region kernel
/// kRounds steps of a random generator on every value: whole numbers, so exact anywhere.
__global__ void step_kernel(uint32_t* values, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint32_t value = values[i];
  for (int round = 0; round < kRounds; ++round) value = value * 1664525u + 1013904223u;
  values[i] = value;
}
// end kernel

void wait_for_release(void* released) {
  while (!static_cast<std::atomic<bool>*>(released)->load()) std::this_thread::yield();
}

/// Milliseconds of `work`, on the host's clock: the median of 5.
template <class Work>
double milliseconds(Work work) {
  std::vector<double> times;
  for (int i = 0; i < 6; ++i) {
    const double begin = lesson::host_seconds();
    work();
    CHECK(cudaDeviceSynchronize());
    if (i > 0) times.push_back(1000 * (lesson::host_seconds() - begin));
  }
  std::sort(times.begin(), times.end());
  return times[2];
}

void teach() {
  cudaStream_t streams[kChunks];
  for (cudaStream_t& s : streams) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  std::vector<uint32_t> input(kCount), expected;
  for (int i = 0; i < kCount; ++i) input[i] = i;
  uint32_t factor = 1, sum = 0;  // all rounds together are one step: v * factor + sum
  for (int round = 0; round < kRounds; ++round) {
    factor *= 1664525u;
    sum = sum * 1664525u + 1013904223u;
  }
  for (const uint32_t value : input) expected.push_back(value * factor + sum);
  const lesson::Array<uint32_t> memory(kCount);

  // region pinned
  uint32_t* pinned;  // memory that the GPU reads by itself, while the host goes on
  CHECK(cudaMallocHost(&pinned, memory.bytes()));
  const auto copy = [&](uint32_t* from) {
    CHECK(cudaMemcpyAsync(memory.data(), from, memory.bytes(), cudaMemcpyHostToDevice, streams[0]));
  };
  const double slow = milliseconds([&] { copy(input.data()); });
  const double fast = milliseconds([&] { copy(pinned); });
  std::printf("%zu MB to the GPU: %.2f ms from pageable memory, %.2f ms from pinned\n",
              memory.bytes() / 1000000, slow, fast);
  // end pinned

  // region chunks
  /// To the GPU, the kernel, and back, in `chunks` parts on as many streams.
  const auto run = [&](int chunks) {
    const int part = kCount / chunks;
    const size_t bytes = part * sizeof(uint32_t);
    for (int i = 0; i < chunks; ++i) {
      uint32_t* on_gpu = memory.data() + i * part;
      CHECK(cudaMemcpyAsync(on_gpu, pinned + i * part, bytes, cudaMemcpyHostToDevice, streams[i]));
      step_kernel<<<part / 256, 256, 0, streams[i]>>>(on_gpu, part);
      CHECK(cudaGetLastError());
      CHECK(cudaMemcpyAsync(pinned + i * part, on_gpu, bytes, cudaMemcpyDeviceToHost, streams[i]));
    }
  };
  for (const int chunks : {1, kChunks}) {
    std::copy(input.begin(), input.end(), pinned);
    run(chunks);
    CHECK(cudaDeviceSynchronize());
    lesson::compare(chunks == 1 ? "one stream" : "several streams",
                    std::vector<uint32_t>(pinned, pinned + kCount), expected);
  }
  const double one = milliseconds([&] { run(1); }), several = milliseconds([&] { run(kChunks); });
  std::printf("1 stream %.2f ms, %d streams %.2f ms: %.2f times as fast\n", one, kChunks, several,
              one / several);
  // end chunks

  // region event
  cudaEvent_t filled;
  CHECK(cudaEventCreate(&filled));
  std::atomic<bool> released = false;
  CHECK(cudaLaunchHostFunc(streams[0], wait_for_release, &released));
  CHECK(cudaMemsetAsync(memory.data(), 0, memory.bytes(), streams[0]));
  CHECK(cudaEventRecord(filled, streams[0]));
  CHECK(cudaStreamWaitEvent(streams[1], filled));  // the host does not wait, stream 1 does
  step_kernel<<<kCount / 256, 256, 0, streams[1]>>>(memory.data(), kCount);
  CHECK(cudaGetLastError());
  lesson::expect("stream 1 waits", cudaStreamQuery(streams[1]) == cudaErrorNotReady);
  // end event

  // region wrong
  cudaEvent_t untimed, before;
  CHECK(cudaEventCreate(&before));
  CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  CHECK(cudaEventRecord(before, streams[2]));
  CHECK(cudaEventRecord(untimed, streams[2]));
  float ms = 0;
  SHOULD_FAIL(cudaEventElapsedTime(&ms, before, filled), cudaErrorNotReady);  // not reached yet
  SHOULD_FAIL(cudaEventElapsedTime(&ms, before, untimed), cudaErrorInvalidResourceHandle);
  // end wrong
  released = true;
  lesson::compare("filled, then stepped", memory.host(), std::vector<uint32_t>(kCount, sum));

  for (cudaEvent_t event : {filled, untimed, before}) CHECK(cudaEventDestroy(event));
  CHECK(cudaFreeHost(pinned));
  for (cudaStream_t s : streams) CHECK(cudaStreamDestroy(s));
}

int main() {
  return lesson::run("Lesson 40: streams and events",
                     "Copies to the GPU, computes and copies back, at once and in parts on several "
                     "streams, and lets one stream wait for another.",
                     teach);
}
