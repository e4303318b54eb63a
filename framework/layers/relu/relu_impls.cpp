#include "layers/relu/relu_impls.h"

namespace duet {

std::vector<ImplEntry<ActivationProblem>>& relu_impls() {
  static std::vector<ImplEntry<ActivationProblem>> list = {
    activation_cpu_reference(),
#if DUET_WITH_CUDA
    activation_custom_vectorized(),
    activation_custom_scalar(),
    activation_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
