// Which gradients of a conv2d_pool_relu rounding would decide.
#include <algorithm>
#include <cmath>
#include <limits>

#include "layers/conv2d/conv2d_impls.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of z's root mean square. fp32 convolutions err by some 1e-6 of it, tf32's by 3e-4.
double tie(Math math) { return math == Math::kFP32 ? 1e-4 : 1e-2; }

/// The convolution's output in double.
std::vector<double> convolve(Conv2dProblem problem, std::vector<double> x, std::vector<double> w,
                             std::vector<double> b) {
  problem.dtype = DType::kFloat64;
  Context context(Device::kCpu);
  std::vector<double> z(static_cast<size_t>(problem.y_desc().elements()));
  LayerTensors t;
  t.x = {{problem.x_desc(), x.data()}};
  t.w = {{problem.w_desc(), w.data()}, {problem.b_desc(), b.data()}};
  t.y = {{problem.y_desc(), z.data()}};
  conv2d_cpu_reference().make(problem, context)->run(Pass::kForward, context, t);
  return z;
}

}  // namespace

void Conv2dPoolReluLayer::settle(const std::vector<std::vector<double>>& x,
                                 const std::vector<std::vector<double>>& w,
                                 std::vector<std::vector<double>>& dy) const {
  const Conv2dProblem& conv = problem().conv;
  const Pool2dProblem& pool = problem().pool;
  const auto z = convolve(conv, x[0], w[0], conv.bias ? w[1] : std::vector<double>(1));
  double square = 0;
  for (double value : z) square += value * value;
  const double near = tie(conv.math) * std::sqrt(square / static_cast<double>(z.size()));

  const TensorDesc z_desc = conv.y_desc(), y_desc = pool.y_desc();
  for (int n = 0; n < pool.n; ++n) {
    for (int c = 0; c < pool.c; ++c) {
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
          const bool undecided =
              std::abs(largest) < near || (largest > 0 && largest - second < near);
          if (undecided) dy[0][static_cast<size_t>(offset_of(y_desc, n, c, p, q))] = 0;
        }
      }
    }
  }
}

}  // namespace duet
