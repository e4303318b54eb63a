// conv2d custom_winograd_3xtf32: custom_winograd for fp32, its 16 products on tensor cores, each as three of tf32
//           (winograd_mma_block.cuh).
// Mapping:  block = 512 threads, warp = 1 of 16 points x 32 tiles x 64 filters; backward_data likewise, or 32
//           tiles of one image x 64 channels; backward_filter: 32 channels x 64 filters, split along the tiles.
// Traffic:  as custom_winograd.
// Limits:   as custom_winograd, and math fp32.
#include "layers/conv2d/conv2d_winograd.cuh"

namespace duet {
namespace {

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem, pass)) return reason;
  return conv2d_winograd_unsupported<WinogradBy::k3xTf32>(problem, pass);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_winograd_3xtf32() {
  return impl_entry<Conv2dWinograd<WinogradBy::k3xTf32>>("custom_winograd_3xtf32", unsupported);
}

}  // namespace duet
