#include "layers/batch_norm/batch_norm_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<BatchNormProblem> batch_norm_custom_cluster();
ImplEntry<BatchNormProblem> batch_norm_custom_two_pass();
ImplEntry<BatchNormProblem> batch_norm_custom_welford();
ImplEntry<BatchNormProblem> batch_norm_cudnn();
ImplEntry<BatchNormProblem> batch_norm_cudnn_persistent();

std::vector<ImplEntry<BatchNormProblem>>& batch_norm_impls() {
  static std::vector<ImplEntry<BatchNormProblem>> list = {
    batch_norm_cpu_reference(),
#if DUET_WITH_CUDA
    batch_norm_custom_welford(),
    batch_norm_custom_cluster(),
    batch_norm_custom_two_pass(),
    batch_norm_cudnn(),
    batch_norm_cudnn_persistent(),
#endif
  };
  return list;
}

}  // namespace duet
