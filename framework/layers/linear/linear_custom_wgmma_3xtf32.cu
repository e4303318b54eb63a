// linear custom_wgmma_3xtf32: custom_wgmma for fp32, each product as three of tf32 on tensor cores
//           (kernels/wgmma_split.cuh).
// Mapping:  as custom_wgmma, with tiles of 128 or 64 columns.
// Traffic:  as custom_wgmma in tf32.
// Limits:   as custom_wgmma in tf32, and math fp32.
#include "layers/linear/linear_wgmma.cuh"

namespace duet {
namespace {

std::optional<std::string> unsupported(const LinearProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem, pass)) return reason;
  return wgmma_shape_unsupported(problem);
}

}  // namespace

ImplEntry<LinearProblem> linear_custom_wgmma_3xtf32() {
  return impl_entry<LinearWgmma<float, true>>("custom_wgmma_3xtf32", unsupported);
}

}  // namespace duet
