// softmax custom_warp_shuffle: a warp shares a row; maximum and sum go from register to register,
//           without shared memory and without a barrier.
// Mapping:  warp = 1 row, block = 8 rows; a reduction is 5 shuffles.
// Traffic:  as custom_shared_memory.
// Limits:   fp32 or bf16, any rank and layout. Long rows are the work of few threads.
#include "kernels/block_combine.cuh"
#include "layers/softmax/softmax_teams.cuh"

namespace duet {
namespace {

// region team
struct Warp {
  static constexpr int kThreads = 32, kBlock = 256;

  template <class Combine>
  static __device__ __forceinline__ float combine(float value, Combine combine) {
    return warp_combine(value, 1, combine);
  }
};
// end team

template <class T>
using SoftmaxCustomWarpShuffle = softmax_teams::SoftmaxByTeams<Warp, T>;

}  // namespace

ImplEntry<SoftmaxProblem> softmax_custom_warp_shuffle() {
  return gpu_entry<SoftmaxCustomWarpShuffle>("custom_warp_shuffle");
}

}  // namespace duet
