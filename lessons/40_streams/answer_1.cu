// Lesson 40, exercise 1: two independent branches that meet again, without the host waiting.
#define main main_of_the_lesson
#include "streams.cu"
#undef main

__global__ void add_kernel(uint32_t* sum, const uint32_t* other, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sum[i] += other[i];
}

void answer() {
  const int count = 1 << 16;
  std::vector<uint32_t> values(count), expected;
  for (int i = 0; i < count; ++i) values[i] = i;
  uint32_t factor = 1, sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    factor *= 1664525u;
    sum = sum * 1664525u + 1013904223u;
  }
  for (const uint32_t value : values) expected.push_back(2 * (value * factor + sum));
  const lesson::Array<uint32_t> left(values), right(values);
  cudaStream_t streams[2];
  for (cudaStream_t& s : streams) CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
  // region answer
  cudaEvent_t right_done;
  CHECK(cudaEventCreateWithFlags(&right_done, cudaEventDisableTiming));
  step_kernel<<<count / 256, 256, 0, streams[0]>>>(left.data(), count);
  step_kernel<<<count / 256, 256, 0, streams[1]>>>(right.data(), count);
  CHECK(cudaEventRecord(right_done, streams[1]));
  CHECK(cudaStreamWaitEvent(streams[0], right_done));
  add_kernel<<<count / 256, 256, 0, streams[0]>>>(left.data(), right.data(), count);
  CHECK(cudaGetLastError());
  // end answer
  lesson::compare("the sum of both branches", left.host(), expected);
  CHECK(cudaEventDestroy(right_done));
  for (cudaStream_t s : streams) CHECK(cudaStreamDestroy(s));
}

int main() { return lesson::run("Lesson 40, answer 1", "Two branches and a join.", answer); }
