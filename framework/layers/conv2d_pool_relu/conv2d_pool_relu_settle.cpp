// Which gradients of a conv2d_pool_relu rounding would decide.
#include <algorithm>
#include <cmath>
#include <limits>

#include "core/parallel.h"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/gpu_reference.h"
#include "layers/rounding.h"

namespace duet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::unique_ptr<Implementation> convolution([[maybe_unused]] const Conv2dProblem& problem,
                                            Context& context) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) return make_conv2d_gpu_reference(problem);
#endif
  return conv2d_cpu_reference().make(problem, context);
}

/// The convolution's output in double.
std::vector<double> convolve(Conv2dProblem problem, const std::vector<double>& x,
                             const std::vector<double>& w, const std::vector<double>& b) {
  problem.dtype = DType::kFloat64;
  return forward_in_double(
      2.0 * static_cast<double>(problem.products()),
      [&](Context& context) { return convolution(problem, context); }, {problem.x_desc(), x},
      {{problem.w_desc(), w}, {problem.b_desc(), b}}, problem.y_desc());
}

}  // namespace

void Conv2dPoolReluLayer::settle(const std::vector<std::vector<double>>& x,
                                 const std::vector<std::vector<double>>& w,
                                 std::vector<std::vector<double>>& dy) const {
  const Conv2dProblem& conv = problem().conv;
  const Pool2dProblem& pool = problem().pool;
  const auto z = convolve(conv, x[0], w[0],
                          conv.bias ? w[1] : std::vector<double>(static_cast<size_t>(conv.k)));
  double square = 0;
  for (double value : z) square += value * value;
  const double near = near_tie(conv.math) * std::sqrt(square / static_cast<double>(z.size()));

  const TensorDesc z_desc = conv.y_desc(), y_desc = pool.y_desc();
  const int64_t planes = int64_t{pool.n} * pool.c;
  parallel_for(planes, static_cast<int64_t>(z.size()), [&](int64_t plane) {
    const int64_t n = plane / pool.c, c = plane % pool.c;
    for (int p = 0; p < pool.p; ++p) {
      for (int q = 0; q < pool.q; ++q) {
        double largest = -kInfinity, second = -kInfinity;
        const PixelRange pixels = pool.pixels_of(p, q);
        for (int row = pixels.h_begin; row < pixels.h_end; ++row) {
          for (int column = pixels.w_begin; column < pixels.w_end; ++column) {
            const double value = z[static_cast<size_t>(offset_of(z_desc, n, c, row, column))];
            second = std::max(second, std::min(value, largest));
            largest = std::max(largest, value);
          }
        }
        const bool undecided = std::abs(largest) < near || (largest > 0 && largest - second < near);
        if (undecided) dy[0][static_cast<size_t>(offset_of(y_desc, n, c, p, q))] = 0;
      }
    }
  });
}

}  // namespace duet
