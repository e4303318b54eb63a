// linear custom_wgmma: Hopper's tensor cores by wgmma and the copy engine; bf16 or tf32. The product is
//           that of kernels/wgmma_product.cuh; matrices by their rows, or turned.
// Mapping:  tile = 128 rows x 256, 128 or 64 columns, which blocks take by turns; one thread starts copies, two
//           warpgroups multiply. Where tiles are too few a sum is split, and a second kernel adds up.
// Traffic:  the weights are rounded to bf16 once, in the workspace; an operand is read once for each
//           tile along the other. The instruction takes tf32 only with terms side by side: the weights
//           for backward_data, and x for backward_filter, are turned in shared memory, and dy is loaded to registers.
// Limits:   math bf16 or tf32, features in whole 16 bytes (multiples of 8 or 4), 32-bit element numbers;
//           compute capability 9.0.
#include "layers/linear/linear_wgmma.cuh"

namespace duet {
namespace {

template <class T>
using LinearCustomWgmma = LinearWgmma<T, false>;

std::optional<std::string> unsupported(const LinearProblem& problem, Pass pass) {
  if (auto reason = tensor_cores_only(problem, pass)) return reason;
  return wgmma_shape_unsupported(problem);
}

}  // namespace

ImplEntry<LinearProblem> linear_custom_wgmma() {
  return gpu_entry<LinearCustomWgmma>("custom_wgmma", unsupported);
}

}  // namespace duet
