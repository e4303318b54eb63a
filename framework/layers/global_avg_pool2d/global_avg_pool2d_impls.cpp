#include "layers/global_avg_pool2d/global_avg_pool2d_impls.h"

#include "layers/avg_pool2d/avg_pool2d_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<Pool2dProblem> global_avg_pool2d_custom_reduction();

std::vector<ImplEntry<Pool2dProblem>>& global_avg_pool2d_impls() {
  static std::vector<ImplEntry<Pool2dProblem>> list = {
    avg_pool2d_cpu_reference(),
#if DUET_WITH_CUDA
    global_avg_pool2d_custom_reduction(),
    pool2d_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
