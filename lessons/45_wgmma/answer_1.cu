// Lesson 45, exercise 1: a product with 256 terms, brought in by four tiles.
#define main main_of_the_lesson
#include "wgmma.cu"
#undef main

constexpr int kTerms = 256;

// region answer
/// Tile t holds columns 64 t to 64 t + 63 of a and b. d stays in registers from tile to tile.
__global__ void long_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out) {
  __shared__ alignas(1024) __nv_bfloat16 as[kSize * kSize], bs[kSize * kSize];
  float d[32] = {};
  for (int tile = 0; tile < kTerms / kSize; ++tile) {
    __syncthreads();  // nobody multiplies the old tile any more
    for (int i = threadIdx.x; i < kSize * kSize; i += 128) {
      as[i] = a[tile * kSize * kSize + i];
      bs[i] = b[tile * kSize * kSize + i];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int k = 0; k < kSize; k += 16) multiply(d, descriptor(as + k), descriptor(bs + k));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  }
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i) {
    const int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2),
              column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    out[row * kSize + column] = d[i];
  }
}
// end answer

void answer() {
  std::vector<__nv_bfloat16> tiles[2];
  std::vector<float> expected(kSize * kSize);
  for (int tile = 0; tile < kTerms / kSize; ++tile) {
    std::vector<float> operands[2];
    for (int i = 0; i < 2; ++i) {
      operands[i] = lesson::random_values(kSize * kSize, 2 * tile + i + 1);
      for (float& value : operands[i]) value = std::floor(8 * value);
      const std::vector<__nv_bfloat16> laid = laid_out(operands[i]);
      tiles[i].insert(tiles[i].end(), laid.begin(), laid.end());
    }
    for (int i = 0; i < kSize * kSize; ++i) {
      for (int k = 0; k < kSize; ++k) {
        expected[i] += operands[0][i / kSize * kSize + k] * operands[1][i % kSize * kSize + k];
      }
    }
  }
  const lesson::Array<__nv_bfloat16> as(tiles[0]), bs(tiles[1]);
  const lesson::Array<float> d(kSize * kSize);
  long_kernel<<<1, 128>>>(as.data(), bs.data(), d.data());
  CHECK(cudaGetLastError());
  lesson::compare("256 terms", d.host(), expected);
}

int main() {
  return lesson::run("Lesson 45, answer 1", "A longer sum, tile by tile.", answer,
                     {9, 0, "the instruction exists on Hopper alone", true});
}
