#include "layers/conv2d_pool_relu/conv2d_pool_relu_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_blas();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_direct();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd();

std::vector<ImplEntry<Conv2dPoolReluProblem>>& conv2d_pool_relu_impls() {
  static std::vector<ImplEntry<Conv2dPoolReluProblem>> list = {
    conv2d_pool_relu_cpu_blas(),
    conv2d_pool_relu_cpu_reference(),
#if DUET_WITH_CUDA
    conv2d_pool_relu_custom_direct(),
    conv2d_pool_relu_custom_winograd(),
    conv2d_pool_relu_custom_fused(),
    conv2d_pool_relu_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
