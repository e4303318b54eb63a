#include "layers/conv2d/conv2d_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<Conv2dProblem> conv2d_cpu_blas();
ImplEntry<Conv2dProblem> conv2d_custom_direct();
ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm();
ImplEntry<Conv2dProblem> conv2d_custom_naive();
ImplEntry<Conv2dProblem> conv2d_custom_winograd();
ImplEntry<Conv2dProblem> conv2d_cudnn();

std::vector<ImplEntry<Conv2dProblem>>& conv2d_impls() {
  static std::vector<ImplEntry<Conv2dProblem>> list = {
    conv2d_cpu_blas(),
    conv2d_cpu_reference(),
#if DUET_WITH_CUDA
    conv2d_custom_direct(),
    conv2d_custom_winograd(),
    conv2d_custom_implicit_gemm(),
    conv2d_custom_naive(),
    conv2d_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
