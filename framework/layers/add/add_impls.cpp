#include "layers/add/add_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<AddProblem> add_custom_vectorized();
ImplEntry<AddProblem> add_cudnn();

std::vector<ImplEntry<AddProblem>>& add_impls() {
  static std::vector<ImplEntry<AddProblem>> list = {
    add_cpu_reference(),
#if DUET_WITH_CUDA
    add_custom_vectorized(),
    add_cudnn(),
#endif
  };
  return list;
}

}  // namespace duet
