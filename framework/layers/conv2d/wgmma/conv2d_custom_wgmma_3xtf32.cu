// conv2d custom_wgmma_3xtf32: custom_wgmma for fp32, each product as three of tf32 on tensor cores
//           (kernels/wgmma_split.cuh).
// Mapping:  as custom_wgmma, with tiles of 128 or 64 columns.
// Traffic:  as custom_wgmma in tf32; values are staged as they are.
// Limits:   as custom_wgmma in tf32, but more than 8 channels and filters, and math fp32.
#include <algorithm>

#include "layers/conv2d/wgmma/conv2d_wgmma.cuh"

namespace duet {

template class WgmmaConvolution<float, true>;

namespace {

std::optional<std::string> unsupported(const Conv2dProblem& d, Pass pass) {
  if (auto reason = fp32_only(d, pass)) return reason;
  constexpr int kRefused = 8;
  return wgmma_shape_unsupported(d, pass, kRefused);
}

/// What the others take, at the rates that they reach on an H200: implicit GEMM, at 64x64x13x13 -> 128 and, for
/// backward_data, 8x32x28x28 -> 96 by 5x5, its columns in whole 32 and its few tiles' sums in parts; and for 3x3 Winograd's,
/// whose tiles are of 2x2 outputs.
double microseconds_by_others(const Conv2dProblem& d, Pass pass) {
  const double per_output = 2. * d.c * d.k * d.r * d.s;
  const bool forward = pass == Pass::kForward, filter = pass == Pass::kBackwardFilter;
  const double rate = forward ? 22e6 : filter ? 26e6 : 15e6;
  const int columns = forward ? d.k : d.c, whole = filter ? columns : round_up(columns, 32);
  const double results = double(d.n) * (forward ? d.p * d.q : d.h * d.w) * whole;
  const double start = !filter && results <= 132 * 64 * 64 ? 8 : 4;
  const double gemm = start + per_output * d.n * d.p * d.q / rate * whole / columns;
  const auto& list = conv2d_impls();
  const auto winograd = std::find_if(
      list.begin(), list.end(), [](const auto& entry) { return entry.id == "custom_winograd"; });
  if (winograd == list.end() || winograd->unsupported(d, pass)) return gemm;
  const double tiles = double(d.n) * round_up(d.p, 2) * round_up(d.q, 2);
  return std::min(gemm, 6 + per_output * tiles / (filter ? 50e6 : 68e6));
}

bool preferred(const Conv2dProblem& d, Pass pass, size_t limit) {
  const WgmmaConvolution<float, true> convolution(d, limit);
  return convolution.workspace_bytes(pass) <= limit &&
         convolution.microseconds(pass) < 0.95 * microseconds_by_others(d, pass);
}

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_wgmma_3xtf32() {
  auto entry = impl_entry<Conv2dWgmma<float, true>>("custom_wgmma_3xtf32", unsupported);
  entry.preferred = preferred;
  return entry;
}

}  // namespace duet
