// conv2d_pool_relu custom_winograd_3xtf32: custom_winograd for fp32, its 16 products on tensor cores, each as three
//           of tf32 (conv2d/winograd/winograd_mma_block.cuh).
// Mapping:  block = 512 threads, warp = 1 of 16 points x 32 windows x 64 filters; backward_data: 32 windows (one
//           image) x 64 channels; backward_filter: 256 threads, 32 channels x 64 filters, split along the windows.
// Traffic:  as custom_winograd.
// Limits:   as custom_winograd, and math fp32; backward_data of images of up to 32 windows.
// Measured: H200, Nx64x13x13 -> 128, at N = 64 and 1024: forward 17.0 us and 187 (custom_winograd 19.8 and 231),
//           backward_data 20.7 and 190 (22.1 and 331), backward_filter with db 23.8 and 167 (25.7 and 198).
#include "layers/conv2d_pool_relu/conv2d_pool_relu_winograd.cuh"

namespace duet {
namespace {

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem.conv, pass)) return reason;
  return conv2d_pool_relu_winograd_unsupported<true>(problem, pass);
}

/// With fewer channels or windows the transforms, or the start of a block, take most of the time.
bool preferred(const Conv2dPoolReluProblem& problem, Pass pass, size_t) {
  constexpr int kFewestChannels = 64;
  const int fewest_windows = pass == Pass::kBackwardData ? 8192 : 1024;
  const Conv2dProblem& conv = problem.conv;
  return conv.c >= kFewestChannels && conv.k >= kFewestChannels &&
         int64_t{conv.n} * problem.pool.p * problem.pool.q >= fewest_windows;
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd_3xtf32() {
  auto entry = impl_entry<Conv2dPoolReluWinograd<true>>("custom_winograd_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
