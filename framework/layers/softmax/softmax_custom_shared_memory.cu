// softmax custom_shared_memory: a block shares a row, so that neighbouring threads read neighbouring
//           values; maximum and sum are found by a tree in shared memory.
// Mapping:  block = 1 row, 256 threads; a reduction is 8 halvings with a barrier each.
// Traffic:  as custom_naive, but coalesced (in nchw); what is walked again comes from L1 or L2.
// Limits:   fp32 or bf16, any rank and layout. Of rows below 256 values threads are idle.
#include "layers/softmax/softmax_teams.cuh"

namespace duet {
namespace {

// region tree
struct Block {
  static constexpr int kThreads = 256, kBlock = 256;

  template <class Combine>
  static __device__ __forceinline__ float combine(float value, Combine combine) {
    __shared__ float values[kThreads];
    __syncthreads();  // values[0] may still be read from the call before
    values[threadIdx.x] = value;
    __syncthreads();
#pragma unroll
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) {
        values[threadIdx.x] = combine(values[threadIdx.x], values[threadIdx.x + half]);
      }
      __syncthreads();
    }
    return values[0];
  }
};
// end tree

template <class T>
using SoftmaxCustomSharedMemory = softmax_teams::SoftmaxByTeams<Block, T>;

}  // namespace

ImplEntry<SoftmaxProblem> softmax_custom_shared_memory() {
  return gpu_entry<SoftmaxCustomSharedMemory>("custom_shared_memory");
}

}  // namespace duet
