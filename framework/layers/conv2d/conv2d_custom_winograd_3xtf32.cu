// conv2d custom_winograd_3xtf32: custom_winograd for fp32, its 16 products on tensor cores, each as three of tf32
//           (winograd_mma_block.cuh).
// Mapping:  block = 512 threads, warp = 1 of 16 points x 32 tiles x 64 filters; backward_data likewise, or 32
//           tiles of one image x 64 channels; backward_filter: 32 channels x 64 filters, split along the tiles.
// Traffic:  as custom_winograd.
// Limits:   as custom_winograd, and math fp32.
// Measured: H200, forward, backward_data and backward_filter with db: 64x64x56x56 -> 64, padded, 169 us, 169 and 191
//           (custom_wgmma_3xtf32 240, 234 and 398); 64x64x13x13 -> 128 31.8, 26.6 and 26.5 (20.0, 30.3 and 37.7).
#include "layers/conv2d/conv2d_winograd.cuh"

namespace duet {
namespace {

std::optional<std::string> unsupported(const Conv2dProblem& problem, Pass pass) {
  if (auto reason = fp32_only(problem, pass)) return reason;
  return conv2d_winograd_unsupported<true>(problem, pass);
}

/// Where it was measured to be the fastest: sums over tiles, up to the many products for which custom_wgmma_3xtf32's staging
/// is little, and of few channels, where patches are many and that stages much.
bool preferred(const Conv2dProblem& d, Pass pass, size_t) {
  const double tiles = double(d.n) * ceil_div(d.p, 2) * ceil_div(d.q, 2);
  if (pass == Pass::kBackwardFilter) {
    return (d.c <= 128 && d.k <= 128) || tiles * d.c * d.k * 36 <= 5e9;
  }
  return d.c <= 64 && d.k <= 64 && tiles >= 1 << 15;
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_winograd_3xtf32() {
  auto entry = impl_entry<Conv2dWinograd<true>>("custom_winograd_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
