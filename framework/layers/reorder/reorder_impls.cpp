#include "layers/reorder/reorder_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<ReorderProblem> reorder_custom_tiled_transpose();
ImplEntry<ReorderProblem> reorder_custom_naive();
ImplEntry<ReorderProblem> reorder_cudnn();

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
