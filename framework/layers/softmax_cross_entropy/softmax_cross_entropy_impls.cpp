#include "layers/softmax_cross_entropy/softmax_cross_entropy_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_warp();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_naive();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cudnn();

std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls() {
  static std::vector<ImplEntry<SoftmaxCrossEntropyProblem>> list = {
    softmax_cross_entropy_cpu_reference(),
#if DUET_WITH_CUDA
    softmax_cross_entropy_custom_warp(),
    softmax_cross_entropy_custom_naive(),
    softmax_cross_entropy_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
