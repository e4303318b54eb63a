// softmax custom_naive: one thread a row, which it walks along three times.
// Mapping:  thread = 1 row; block = 128.
// Traffic:  forward x three times, y once; neighbouring threads read a row's length apart, so that
//           a sector is fetched for one value at a time and lives off the caches. Backward y and dy
//           twice (in bf16 x four times for y), dx once.
// Limits:   fp32 or bf16, any rank and layout.
#include "layers/softmax/softmax_teams.cuh"

namespace duet {
namespace {

// region team
struct OneThread {
  static constexpr int kThreads = 1, kBlock = 128;

  template <class Combine>
  static __device__ __forceinline__ float combine(float value, Combine) {
    return value;
  }
};
// end team

template <class T>
using SoftmaxCustomNaive = softmax_teams::SoftmaxByTeams<OneThread, T>;

}  // namespace

ImplEntry<SoftmaxProblem> softmax_custom_naive() {
  return gpu_entry<SoftmaxCustomNaive>("custom_naive");
}

}  // namespace duet
