#include "layers/avg_pool2d/avg_pool2d_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<Pool2dProblem> avg_pool2d_custom_vectorized();
ImplEntry<Pool2dProblem> avg_pool2d_custom_naive();

std::vector<ImplEntry<Pool2dProblem>>& avg_pool2d_impls() {
  static std::vector<ImplEntry<Pool2dProblem>> list = {
    avg_pool2d_cpu_reference(),
#if DUET_WITH_CUDA
    avg_pool2d_custom_vectorized(),
    avg_pool2d_custom_naive(),
    pool2d_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
