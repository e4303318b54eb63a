#include "layers/batch_norm_relu/batch_norm_relu_impls.h"

namespace duet {

// In layers/batch_norm, each in the file of its name.
ImplEntry<BatchNormProblem> batch_norm_custom_cluster();
ImplEntry<BatchNormProblem> batch_norm_custom_two_pass();
ImplEntry<BatchNormProblem> batch_norm_custom_welford();
// In batch_norm_relu_composed.cpp.
ImplEntry<BatchNormProblem> batch_norm_relu_cpu_reference();
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn();
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn_persistent();

std::vector<ImplEntry<BatchNormProblem>>& batch_norm_relu_impls() {
  static std::vector<ImplEntry<BatchNormProblem>> list = {
    batch_norm_relu_cpu_reference(),
#if DUET_WITH_CUDA
    batch_norm_custom_welford(),
    batch_norm_custom_cluster(),
    batch_norm_custom_two_pass(),
    batch_norm_relu_cudnn(),
    batch_norm_relu_cudnn_persistent(),
#endif
  };
  return list;
}

}  // namespace duet
