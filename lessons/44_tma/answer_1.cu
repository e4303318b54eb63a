// Lesson 44, exercise 1: the way back: a tile from shared memory to a tensor, cut off at its borders.
#define main main_of_the_lesson
#include "tma.cu"
#undef main

// region answer
/// Every block writes its number to its box. What lies outside of the tensor is not written.
__global__ void store_kernel(const __grid_constant__ CUtensorMap map, float value) {
  __shared__ alignas(128) float box[kBoxH][kBoxW];
  for (int i = threadIdx.x; i < kBoxH * kBoxW; i += blockDim.x) {
    box[i / kBoxW][i % kBoxW] = value + blockIdx.y * gridDim.x + blockIdx.x;
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the engine must see these writes
  __syncthreads();
  if (threadIdx.x != 0) return;
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
          &map),
      "r"(blockIdx.x * kBoxW), "r"(blockIdx.y * kBoxH), "r"(uint32_t(__cvta_generic_to_shared(box)))
      : "memory");
  asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
}
// end answer

void answer() {
  const int height = 50, width = 200, across = (width + kBoxW - 1) / kBoxW;
  const lesson::Array<float> y(size_t(height + 10) *
                               width);  // 10 rows behind it that must stay NaN
  CUtensorMap map;
  CHECK(encode(&map, y.data(), width, height, width * sizeof(float)));
  store_kernel<<<dim3(across, (height + kBoxH - 1) / kBoxH), 128>>>(map, 5);
  CHECK(cudaGetLastError());
  std::vector<float> expected;
  for (int r = 0; r < height + 10; ++r) {
    for (int c = 0; c < width; ++c) {
      expected.push_back(r < height ? 5.0f + r / kBoxH * across + c / kBoxW : NAN);
    }
  }
  lesson::compare("boxes, and nothing outside", y.host(), expected);
}

int main() {
  return lesson::run("Lesson 44, answer 1", "Stores boxes by TMA.", answer,
                     {9, 0, "the copy engine for tensors came with Hopper"});
}
