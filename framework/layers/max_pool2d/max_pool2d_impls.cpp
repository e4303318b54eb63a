#include "layers/max_pool2d/max_pool2d_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<Pool2dProblem> max_pool2d_custom_vectorized();
ImplEntry<Pool2dProblem> max_pool2d_custom_naive();

std::vector<ImplEntry<Pool2dProblem>>& max_pool2d_impls() {
  static std::vector<ImplEntry<Pool2dProblem>> list = {
    max_pool2d_cpu_reference(),
#if DUET_WITH_CUDA
    max_pool2d_custom_vectorized(),
    max_pool2d_custom_naive(),
    pool2d_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
