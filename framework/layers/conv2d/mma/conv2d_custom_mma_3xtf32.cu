// conv2d custom_mma_3xtf32: custom_mma's products of 1x1 filters for fp32, each as three of tf32 on tensor cores
//           (StoredMma3xTf32 of kernels/mma_tile.cuh).
// Mapping:  as pointwise_product.cuh has it: block = 128x128, 64x64 or 32x64 of filters (or channels) x positions,
//           of backward_filter filters x channels; clusters of up to 8 blocks share a sum. Where tiles are many,
//           images as pointwise_kept.cuh has it, and up to 64 of one pixel as kernels/few_rows.cuh has them.
// Traffic:  the tensors as they lie, x and dy once a tile of the other axis, results once.
// Limits:   fp32, filters of 1x1, stride 1, no padding, groups = 1, nchw, channels in whole fours or up to 64
//           images of one pixel; compute capability 9.0.
#include "layers/conv2d/mma/pointwise_product.cuh"

namespace duet {

template class PointwiseConvolution<float, true>;

namespace {

std::optional<std::string> unsupported(const Conv2dProblem& d, Pass pass) {
  if (auto reason = fp32_only(d, pass)) return reason;
  if (auto reason = gathers_unsupported(d, pass)) return reason;
  if (!is_pointwise(d)) {
    return "takes filters of 1x1 with stride 1 and no padding in nchw, channels that are a "
           "multiple of 4 or up to 64 images of one pixel, and a GPU of compute capability 9.0";
  }
  return {};
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_mma_3xtf32() {
  auto entry = impl_entry<PointwiseConvolution<float, true>>("custom_mma_3xtf32", unsupported);
  entry.preferred = [](const Conv2dProblem& problem, Pass, size_t) {
    return pointwise_preferred(problem);
  };
  return entry;
}

}  // namespace duet
