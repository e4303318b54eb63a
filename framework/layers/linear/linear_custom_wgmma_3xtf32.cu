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

/// Where an estimate is below the others' time, at the rate that they reach on an H200.
bool preferred(const LinearProblem& problem, Pass pass, size_t limit) {
  const LinearWgmma<float, true> product(problem, limit);
  const double others = 5 + 2. * problem.n * problem.in * problem.out / 46e6;
  return product.workspace_bytes(pass) <= limit && product.microseconds(pass) < 0.9 * others;
}

}  // namespace

ImplEntry<LinearProblem> linear_custom_wgmma_3xtf32() {
  auto entry = impl_entry<LinearWgmma<float, true>>("custom_wgmma_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
