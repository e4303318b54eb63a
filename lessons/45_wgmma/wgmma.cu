// Lesson 45: wgmma, Hopper's matrix instruction: four warps multiply matrices that lie in shared memory.
#include <cuda_bf16.h>

#include "../lesson.h"

// region constants
constexpr int kSize = 64;  // d (64 x 64, float) = a * b^T; a and b: 64 rows of 64 bfloat16
// end constants

// region layout
/// Where element (row, column) of an operand lies: rows of 128 bytes, whose 8 pieces of 16 bytes are
/// exchanged from row to row, so that reading a column of pieces touches all banks ("swizzle").
__host__ __device__ int place(int row, int column) {
  return row * kSize + ((column / 8) ^ (row % 8)) * 8 + column % 8;
}
// end layout

// region descriptor
/// An operand, as the instruction takes it: where it begins, 1024 bytes from 8 rows to the next 8, and
/// that its pieces are exchanged within 128 bytes.
__device__ uint64_t descriptor(const void* shared) {
  const uint64_t address = __cvta_generic_to_shared(shared);
  return (address & 0x3ffff) >> 4 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
// end descriptor

// region instruction
#define FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
/// d += a * b^T for 16 of the 64 columns of a and b, by the 128 threads of a warpgroup together.
__device__ void multiply(float (&d)[32], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, 1, 1, 1, 0, 0;"
      : SIXTEEN(0), SIXTEEN(16)
      : "l"(a), "l"(b));
}
// end instruction

// region kernel
/// `repeats` times the product, added up. Every block computes the same.
__global__ void multiply_kernel(const __nv_bfloat16* a, const __nv_bfloat16* b, float* out,
                                int repeats) {
  __shared__ alignas(1024) __nv_bfloat16 as[kSize * kSize], bs[kSize * kSize];
  for (int i = threadIdx.x; i < kSize * kSize; i += 128) {
    as[i] = a[i];
    bs[i] = b[i];
  }
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // wgmma reads past the threads
  __syncthreads();
  float d[32] = {};
  for (int repeat = 0; repeat < repeats; ++repeat) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");  // d is the instruction's from here
    for (int k = 0; k < kSize; k += 16) multiply(d, descriptor(as + k), descriptor(bs + k));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");  // and ours again
  }
  if (blockIdx.x != 0) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int i = 0; i < 32; ++i) {
    const int row = 16 * warp + lane / 4 + 8 * (i / 2 % 2);
    const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
    out[row * kSize + column] = d[i];
  }
}
// end kernel

/// As many multiplications and additions by ordinary instructions.
__global__ void fma_kernel(float* out, int count) {
  float sums[8];  // of different values, or the compiler would compute one
  for (int i = 0; i < 8; ++i) sums[i] = static_cast<float>(8 * threadIdx.x + i);
  for (int i = 0; i < count; ++i) {
    for (float& sum : sums) sum = sum * 0.5f + 1.0f;
  }
  float total = 0;
  for (const float sum : sums) total += sum;
  out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

/// Rows in the order that `place` gives them.
std::vector<__nv_bfloat16> laid_out(const std::vector<float>& values) {
  std::vector<__nv_bfloat16> result(values.size());
  for (int i = 0; i < kSize * kSize; ++i) {
    result[place(i / kSize, i % kSize)] = __float2bfloat16(values[i]);
  }
  return result;
}

void teach() {
  // region run
  auto a = lesson::random_values(kSize * kSize, 1), b = lesson::random_values(kSize * kSize, 2);
  for (std::vector<float>* values : {&a, &b}) {
    for (float& value : *values) value = std::floor(8 * value);  // whole numbers: sums are exact
  }
  std::vector<float> expected;
  for (int i = 0; i < kSize * kSize; ++i) {
    float sum = 0;
    for (int k = 0; k < kSize; ++k) sum += a[i / kSize * kSize + k] * b[i % kSize * kSize + k];
    expected.push_back(sum);
  }
  const lesson::Array<__nv_bfloat16> as(laid_out(a)), bs(laid_out(b));
  const lesson::Array<float> d(kSize * kSize);
  multiply_kernel<<<1, 128>>>(as.data(), bs.data(), d.data(), 1);
  CHECK(cudaGetLastError());
  lesson::compare("a b^T", d.host(), expected);
  // end run

  // region rate
  int processors = 0;
  CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
  const int blocks = 4 * processors, repeats = 2000;
  const double us = lesson::microseconds([&] {
    multiply_kernel<<<blocks, 128>>>(as.data(), bs.data(), d.data(), repeats);
    CHECK(cudaGetLastError());
  });
  const double tensor_rate = 2e-6 * kSize * kSize * kSize * repeats * blocks / us;
  const lesson::Array<float> sums(size_t(blocks) * 512);
  const int steps = 10000;
  const double fma_us = lesson::microseconds([&] {
    fma_kernel<<<blocks, 512>>>(sums.data(), steps);
    CHECK(cudaGetLastError());
  });
  const double fma_rate = 2e-6 * 8 * steps * 512 * blocks / fma_us;
  std::printf("wgmma %.0f TFLOP/s in bfloat16, fma %.0f TFLOP/s in float32: %.0f times as fast\n",
              tensor_rate, fma_rate, tensor_rate / fma_rate);
  // end rate

  // region wrong
  // Operands in plain rows: no error, and wrong sums.
  std::vector<__nv_bfloat16> rows;
  for (const float value : a) rows.push_back(__float2bfloat16(value));
  const lesson::Array<__nv_bfloat16> unswizzled(rows);
  multiply_kernel<<<1, 128>>>(unswizzled.data(), bs.data(), d.data(), 1);
  CHECK(cudaGetLastError());
  lesson::expect("without the exchange of pieces sums are wrong",
                 lesson::largest_difference(d.host(), expected) > 0);
  // More shared memory than a kernel has unasked (48 KB), as larger tiles want it.
  multiply_kernel<<<1, 128, 64 * 1024>>>(as.data(), bs.data(), d.data(), 1);
  SHOULD_FAIL(cudaGetLastError(), cudaErrorInvalidValue);
  // end wrong
}

int main() {
  return lesson::run("Lesson 45: wgmma",
                     "Multiplies 64 x 64 matrices by one warpgroup, and measures its rate.", teach,
                     {9, 0, "the instruction exists on Hopper alone", true});
}
