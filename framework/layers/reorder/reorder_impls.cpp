#include "layers/reorder/reorder_impls.h"

namespace duet {

const std::vector<ImplEntry<ReorderProblem>>& reorder_impls() {
  static const std::vector<ImplEntry<ReorderProblem>> list = {
      reorder_cpu_reference(),
  };
  return list;
}

}  // namespace duet
