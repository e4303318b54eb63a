#include "layers/concat/concat_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<ConcatProblem> concat_custom_vectorized();
ImplEntry<ConcatProblem> concat_cudnn();

std::vector<ImplEntry<ConcatProblem>>& concat_impls() {
  static std::vector<ImplEntry<ConcatProblem>> list = {
    concat_cpu_reference(),
#if DUET_WITH_CUDA
    concat_custom_vectorized(),
    concat_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
