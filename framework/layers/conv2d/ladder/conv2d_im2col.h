// The im2col matrix of a convolution, in memory: what a tap reads at an output position. In NCHW it
// is [C*R*S taps][N*P*Q positions], in NHWC [N*P*Q positions][R*S*C taps], so that neighbours in
// memory are neighbours in x. Only in a build with CUDA.
#pragma once

#include <optional>
#include <string>

#include "layers/conv2d/conv2d.h"

namespace duet {

inline int im2col_positions(const Conv2dProblem& d) { return d.n * d.p * d.q; }
inline int im2col_taps(const Conv2dProblem& d) { return d.c * d.r * d.s; }
inline int64_t im2col_elements(const Conv2dProblem& d) {
  return int64_t{im2col_positions(d)} * im2col_taps(d);
}

/// Why there is no such matrix, or nothing.
std::optional<std::string> im2col_unsupported(const Conv2dProblem& problem);
/// Throws UnsupportedError if a workspace of `bytes` is beyond the limit.
void check_im2col_workspace(const Context& context, std::string_view id, size_t bytes);

/// `columns` is as x is stored.
void queue_im2col(const Conv2dProblem& problem, const Tensor& x, void* columns, const Run& run);
/// dx = the sum, for each input, of what the taps that read it have in `columns`, in float32.
void queue_col2im(const Conv2dProblem& problem, const float* columns, const Tensor& dx,
                  const Run& run);

}  // namespace duet
