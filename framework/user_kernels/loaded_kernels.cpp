#include "user_kernels/loaded_kernels.h"

namespace duet {

LoadedKernels::LoadedKernels(const CompiledKernels& compiled, const KernelInterface& interface)
    : tensors_(interface.passes), workspace_(compiled.workspace), state_(compiled.state) {}

size_t LoadedKernels::workspace_bytes(Pass pass) const {
  const auto found = workspace_.find(pass);
  return found == workspace_.end() ? 0 : found->second;
}

void LoadedKernels::run(Pass pass, const Run& run, const LayerTensors& t) {
  const std::vector<KernelTensor>& tensors = tensors_.at(pass);
  Pointers pointers{};
  bool wanted = false;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const KernelTensor& each = tensors[i];
    pointers[i] = each.index ? (t.*each.list)[*each.index].memory : nullptr;
    wanted |= each.written && pointers[i];
  }
  if (wanted) call(pass, run, pointers, tensors.size(), t.state.memory);
}

}  // namespace duet
