#include "layers/concat/concat_impls.h"

namespace duet {

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
