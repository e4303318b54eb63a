// linear custom_vectorised: custom_thread_tiled with four values a load, from global memory and from
//           shared memory. The kernel is in linear_vectorised.cuh.
// Mapping:  block = 64x64 outputs, 64 threads; thread = 8x8 sums, in runs of four rows and four
//           columns. 16 of k at a time, in shared memory with k outer whatever they are in global
//           memory.
// Traffic:  as custom_thread_tiled by a quarter of the instructions: 4 loads of 16 bytes feed 64
//           multiply-adds.
// Limits:   fp32 or bf16, rows that divide by 4, up to 2097120 of them.
#include "layers/linear/linear_vectorised.cuh"

namespace duet {
namespace {

template <class T>
class LinearCustomVectorised : public linear::StoredProductImpl<T, LinearCustomVectorised<T>> {
 public:
  using linear::StoredProductImpl<T, LinearCustomVectorised>::StoredProductImpl;

  template <bool kInnerA, bool kInnerB, class P>
  void multiply(const P& p, const Run& run) {
    linear::launch_vectorised<kInnerA, kInnerB>(p, 1, p.k, 0, run);
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_vectorised() {
  return gpu_entry<LinearCustomVectorised>("custom_vectorised", linear::vectorised_unsupported);
}

}  // namespace duet
