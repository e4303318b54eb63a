// Lesson 30, exercise 1: a dropout mask that does not depend on how the kernel is launched.
#define main main_of_the_lesson
#include "random.cu"
#undef main

// region answer
/// Value i belongs to word i % 4 of position i / 4, whichever thread computes it.
__global__ void mask_kernel(uint8_t* kept, int count, uint64_t step, uint32_t limit) {
  const int first = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  for (int i = first; i < count; i += 4 * gridDim.x * blockDim.x) {
    const Philox random = philox(kSeed, step, i / 4);
    for (int j = 0; j < 4 && i + j < count; ++j) kept[i + j] = random.word[j] >= limit;
  }
}
// end answer

void answer() {
  const int count = 10001;
  const uint64_t step = 7;  // of the training: the next step has another mask
  const auto limit = static_cast<uint32_t>(0.3 * 4294967296.0);
  std::vector<uint8_t> expected;
  for (int i = 0; i < count; ++i) {
    expected.push_back(philox(kSeed, step, i / 4).word[i % 4] >= limit);
  }
  for (const int blocks : {1, 3, 20}) {
    const lesson::Array<uint8_t> kept(count);
    mask_kernel<<<blocks, 128>>>(kept.data(), count, step, limit);
    CHECK(cudaGetLastError());
    lesson::compare("the mask", kept.host(), expected);
  }
  const double share =
      static_cast<double>(std::count(expected.begin(), expected.end(), 1)) / expected.size();
  std::printf("kept: %.1f%%\n", 100 * share);
  lesson::expect("about 70% are kept", std::fabs(share - 0.7) < 0.02);
}

int main() { return lesson::run("Lesson 30, answer 1", "A mask from a counter.", answer); }
