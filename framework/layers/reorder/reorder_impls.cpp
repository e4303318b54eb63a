#include "layers/reorder/reorder_impls.h"

namespace duet {

const std::vector<ImplEntry<ReorderProblem>>& reorder_impls() {
  static const std::vector<ImplEntry<ReorderProblem>> list = {
    reorder_cpu_reference(),
#if DUET_WITH_CUDA
    reorder_custom_tiled_transpose(),
    reorder_custom_naive(),
    reorder_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
