#include "layers/linear/linear_impls.h"

namespace duet {

// Each in the file of its name.
ImplEntry<LinearProblem> linear_cpu_blas();
ImplEntry<LinearProblem> linear_custom_large_tile();
ImplEntry<LinearProblem> linear_custom_naive();
ImplEntry<LinearProblem> linear_custom_register_tiled();
ImplEntry<LinearProblem> linear_custom_tiled();
ImplEntry<LinearProblem> linear_cudnn_cublas();

std::optional<std::string> linear_fp32_tiles(const LinearProblem& problem, Pass pass) {
  constexpr int kMostRows = 32 * 65535;  // 65535 is the end of a grid's second dimension
  const int rows = pass == Pass::kBackwardFilter ? problem.out : problem.n;
  if (rows > kMostRows) return "has tiles for up to " + std::to_string(kMostRows) + " rows";
  return fp32_only(problem, pass);
}

std::vector<ImplEntry<LinearProblem>>& linear_impls() {
  static std::vector<ImplEntry<LinearProblem>> list = {
    linear_cpu_blas(),
    linear_cpu_reference(),
#if DUET_WITH_CUDA
    linear_custom_register_tiled(),
    linear_custom_large_tile(),
    linear_custom_tiled(),
    linear_custom_naive(),
    linear_cudnn_cublas(),
#endif
  };
  return list;
}

}  // namespace duet
