#include "layers/softmax_cross_entropy/softmax_cross_entropy_impls.h"

namespace duet {

const std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls() {
  static const std::vector<ImplEntry<SoftmaxCrossEntropyProblem>> list = {
      softmax_cross_entropy_cpu_reference(),
  };
  return list;
}

}  // namespace duet
