// Conversion between float32 and bfloat16, for libraries that take both operands in one type.
// Mapping:  thread = 8 elements; block = 256; the last thread takes a tail of 1 to 7 one by one.
// Traffic:  from once, to once.
#include "device/check.h"
#include "device/launch.h"
#include "kernels/convert.h"
#include "kernels/vector.cuh"

namespace duet {
namespace {

constexpr int kThreads = 256, kPerThread = 8;

template <class From, class To>
__global__ void convert_kernel(int64_t count, const From* from, To* to) {
  wait_for_primary();
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kPerThread;
  if (first + kPerThread <= count) {
    float values[kPerThread];
#pragma unroll
    for (int i = 0; i < kPerThread; i += kWidest<From>) {
      const auto piece = load<kWidest<From>>(from + first + i);
#pragma unroll
      for (int e = 0; e < kWidest<From>; ++e) values[i + e] = piece.v[e];
    }
    let_secondary_start();
#pragma unroll
    for (int i = 0; i < kPerThread; i += kWidest<To>) {
      Vector<float, kWidest<To>> piece;
#pragma unroll
      for (int e = 0; e < kWidest<To>; ++e) piece.v[e] = values[i + e];
      store(to + first + i, piece);
    }
  } else {
    for (int64_t i = first; i < count; ++i) to[i] = To(float(from[i]));
  }
}

template <class From, class To>
void launch(const From* from, To* to, int64_t count, cudaStream_t stream) {
  constexpr int64_t kPerBlock = kThreads * kPerThread;
  const auto blocks = static_cast<unsigned>((count + kPerBlock - 1) / kPerBlock);
  launch_following({blocks, kThreads, 0, stream}, convert_kernel<From, To>, count, from, to);
}

}  // namespace

void queue_conversion(const float* from, bfloat16* to, int64_t count, CUstream_st* stream) {
  launch(from, to, count, stream);
}
void queue_conversion(const bfloat16* from, float* to, int64_t count, CUstream_st* stream) {
  launch(from, to, count, stream);
}

}  // namespace duet
