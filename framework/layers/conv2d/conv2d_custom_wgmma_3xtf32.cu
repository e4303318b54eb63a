// conv2d custom_wgmma_3xtf32: custom_wgmma for fp32, each product as three of tf32 on tensor cores
//           (kernels/wgmma_split.cuh).
// Mapping:  as custom_wgmma, with tiles of 128 or 64 columns.
// Traffic:  as custom_wgmma in tf32; values are staged as they are.
// Limits:   as custom_wgmma in tf32, and math fp32.
#include "layers/conv2d/conv2d_wgmma.cuh"

namespace duet {

template class WgmmaConvolution<float, true>;

namespace {

std::optional<std::string> unsupported(const Conv2dProblem& d, Pass pass) {
  if (auto reason = fp32_only(d, pass)) return reason;
  return wgmma_shape_unsupported(d, pass);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_wgmma_3xtf32() {
  return impl_entry<Conv2dWgmma<float, true>>("custom_wgmma_3xtf32", unsupported);
}

}  // namespace duet
