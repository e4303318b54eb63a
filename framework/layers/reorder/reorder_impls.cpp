#include "layers/reorder/reorder_impls.h"

namespace duet {

std::vector<ImplEntry<ReorderProblem>>& reorder_impls() {
  static std::vector<ImplEntry<ReorderProblem>> list = {
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
