// conv2d_pool_relu custom_winograd_tf32: custom_winograd for tf32, its 16 products on tensor cores
//           (conv2d/winograd_mma_block.cuh); both operands are rounded behind their transforms.
// Mapping:  block = 512 threads, warp = 1 of 16 points x 32 windows x 64 filters; backward_data: 32 windows (one
//           image) x 64 channels; backward_filter: 32 channels x 64 filters, split along the windows.
// Traffic:  as custom_winograd.
// Limits:   as custom_winograd, and math tf32; backward_data of images of up to 32 windows.
#include "layers/conv2d_pool_relu/conv2d_pool_relu_winograd.cuh"

namespace duet {
namespace {

std::optional<std::string> unsupported(const Conv2dPoolReluProblem& problem, Pass pass) {
  if (auto reason = tensor_cores_only(problem.conv, pass)) return reason;
  return conv2d_pool_relu_winograd_unsupported<WinogradBy::kTf32>(problem, pass);
}

}  // namespace

ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd_tf32() {
  return impl_entry<Conv2dPoolReluWinograd<WinogradBy::kTf32>>("custom_winograd_tf32", unsupported);
}

}  // namespace duet
