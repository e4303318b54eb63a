// What rounding decides in a batch_norm2d_relu_pool, and what its rounding is held to.
#include <algorithm>
#include <cmath>

#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"

namespace duet {
namespace {

using Values = std::vector<std::vector<double>>;

/// Calls visit(output, window) for every output, with the places of its window's pixels in memory.
template <class Visit>
void for_each_window(const Pool2dProblem& pool, Visit&& visit) {
  const TensorDesc x = pool.x_desc(), y = pool.y_desc();
  std::vector<size_t> window;
  for (int n = 0; n < pool.n; ++n) {
    for (int c = 0; c < pool.c; ++c) {
      for (int p = 0; p < pool.p; ++p) {
        for (int q = 0; q < pool.q; ++q) {
          const PixelRange pixels = pool.pixels_of(p, q);
          window.clear();
          for (int h = pixels.h_begin; h < pixels.h_end; ++h) {
            for (int w = pixels.w_begin; w < pixels.w_end; ++w) {
              window.push_back(static_cast<size_t>(offset_of(x, n, c, h, w)));
            }
          }
          visit(static_cast<size_t>(offset_of(y, n, c, p, q)), window);
        }
      }
    }
  }
}

/// Of the window, the first place of the largest value.
size_t largest_of(const std::vector<size_t>& window, const std::vector<double>& values) {
  return *std::max_element(window.begin(), window.end(),
                           [&](size_t a, size_t b) { return values[a] < values[b]; });
}

}  // namespace

void BatchNormReluPoolLayer::settle(const Values& x, const Values& w, Values& dy) const {
  const BatchNormProblem& norm = problem().norm;
  // Between parts what is compared may be rounded to bfloat16.
  const double stored = norm.dtype == DType::kBFloat16 ? 0x1p-7 : 0;
  for (const bool training : {true, false}) {
    if (training && norm.count() == 1) continue;
    const std::vector<double> z = batch_norm_values(norm, training, x, w);
    const std::vector<double> size = batch_norm_sizes(norm, Pass::kForward, training, x, w, {})[0];
    const auto error = [&](size_t i) { return kBatchNormTie * size[i] + stored * std::abs(z[i]); };
    for_each_window(problem().pool, [&](size_t output, const std::vector<size_t>& window) {
      const size_t first = largest_of(window, z);
      bool undecided = std::abs(z[first]) < kBatchNormTie * size[first];
      for (size_t i : window) {
        const bool near = z[first] - z[i] < error(first) + error(i);
        undecided |= z[first] > 0 && near && x[0][i] != x[0][first];
      }
      if (undecided) dy[0][output] = 0;
    });
  }
}

Values BatchNormReluPoolLayer::sizes(Pass pass, bool training, const Values& x, const Values& w,
                                     const Values& dy) const {
  const BatchNormProblem& norm = problem().norm;
  if (pass == Pass::kForward) {
    Values sizes = batch_norm_sizes(norm, pass, training, x, w, {});
    std::vector<double> pooled(static_cast<size_t>(problem().pool.y_desc().elements()));
    for_each_window(problem().pool, [&](size_t output, const std::vector<size_t>& window) {
      for (size_t i : window) pooled[output] = std::max(pooled[output], sizes[0][i]);
    });
    sizes[0] = std::move(pooled);
    return sizes;
  }
  const std::vector<double> z = batch_norm_values(norm, training, x, w);
  Values dz = {std::vector<double>(z.size())};
  for_each_window(problem().pool, [&](size_t output, const std::vector<size_t>& window) {
    const size_t first = largest_of(window, z);
    if (z[first] > 0) dz[0][first] += dy[0][output];
  });
  return batch_norm_sizes(norm, pass, training, x, w, dz);
}

}  // namespace duet
