#include "layers/dropout/dropout_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<DropoutProblem> dropout_custom_recompute();
ImplEntry<DropoutProblem> dropout_custom_mask();

// No cudnn entry: cuDNN's dropout draws its mask from a generator of its own, so that its arm would
// drop other elements. The cudnn family takes the shared entry.
std::vector<ImplEntry<DropoutProblem>>& dropout_impls() {
  static std::vector<ImplEntry<DropoutProblem>> list = {
    dropout_cpu_reference(),
#if DUET_WITH_CUDA
    dropout_custom_recompute(),
    dropout_custom_mask(),
#endif
  };
  return list;
}

}  // namespace duet
