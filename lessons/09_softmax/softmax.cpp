// Lesson 09: softmax: over what it sums, how it avoids overflow, and its logarithm.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 3, kC = 4, kH = 2, kW = 5;
// end constants

// region plain
/// y and dx in the rows of `mode`: all of an image, or the channels of a pixel.
void plain(cudnnSoftmaxMode_t mode, bool logarithm, const std::vector<float>& x,
           const std::vector<float>& dy, std::vector<double>& y, std::vector<double>& dx) {
  const bool channels = mode == CUDNN_SOFTMAX_MODE_CHANNEL;
  const int pixels = kH * kW, rows = channels ? kN * pixels : kN;
  const int length = channels ? kC : kC * pixels, step = channels ? pixels : 1;
  y.assign(x.size(), 0);
  dx = y;
  for (int row = 0; row < rows; ++row) {
    const int first = channels ? row / pixels * kC * pixels + row % pixels : row * length;
    double largest = -INFINITY, sum = 0, gradient = 0;
    for (int i = 0; i < length; ++i) largest = std::max(largest, double(x[first + i * step]));
    for (int i = 0; i < length; ++i) sum += std::exp(x[first + i * step] - largest);
    for (int i = 0; i < length; ++i) {
      const int at = first + i * step;
      const double log_y = x[at] - largest - std::log(sum);
      y[at] = logarithm ? log_y : std::exp(log_y);
      gradient += logarithm ? dy[at] : dy[at] * y[at];
    }
    for (int i = 0; i < length; ++i) {
      const int at = first + i * step;
      dx[at] = logarithm ? dy[at] - std::exp(y[at]) * gradient : y[at] * (dy[at] - gradient);
    }
  }
}
// end plain

void teach() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor tensor;
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
  // region memory
  std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  const std::vector<float> dy = lesson::random_values(x.size(), 2);
  const lesson::Array<float> xs(x), dys(dy), ys(x.size()), dxs(x.size());
  const float one = 1, zero = 0;
  // end memory
  std::vector<double> y, dx;

  // region both
  const struct {
    const char* name;
    cudnnSoftmaxAlgorithm_t algorithm;
    cudnnSoftmaxMode_t mode;
  } cases[] = {{"fast, instance", CUDNN_SOFTMAX_FAST, CUDNN_SOFTMAX_MODE_INSTANCE},
               {"accurate, instance", CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE},
               {"accurate, channel", CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL},
               {"log, channel", CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL}};
  for (const auto& [name, algorithm, mode] : cases) {
    plain(mode, algorithm == CUDNN_SOFTMAX_LOG, x, dy, y, dx);
    CHECK(cudnnSoftmaxForward(cudnn, algorithm, mode, &one, tensor, xs.data(), &zero, tensor,
                              ys.data()));
    CHECK(cudnnSoftmaxBackward(cudnn, algorithm, mode, &one, tensor, ys.data(), tensor, dys.data(),
                               &zero, tensor, dxs.data()));
    std::printf("%s\n", name);
    lesson::compare(" y", ys.host(), y, 1e-5);
    lesson::compare(" dx", dxs.host(), dx, 1e-5);
  }
  // end both

  // region large
  for (float& value : x) value = 100 * value + 500;  // exp(88.8) is infinite in float32
  const lesson::Array<float> large(x);
  const auto count_nan = [&](cudnnSoftmaxAlgorithm_t algorithm) {
    CHECK(cudnnSoftmaxForward(cudnn, algorithm, CUDNN_SOFTMAX_MODE_CHANNEL, &one, tensor,
                              large.data(), &zero, tensor, ys.data()));
    int count = 0;
    for (const float value : ys.host()) count += !std::isfinite(value);
    return count;
  };
  const int accurate = count_nan(CUDNN_SOFTMAX_ACCURATE), fast = count_nan(CUDNN_SOFTMAX_FAST);
  std::printf("of %zu logits near 500: %d are not finite with ACCURATE, %d with FAST\n", x.size(),
              accurate, fast);
  lesson::expect("ACCURATE subtracts the maximum, FAST does not", accurate == 0 && fast > 0);
  plain(CUDNN_SOFTMAX_MODE_CHANNEL, true, x, dy, y, dx);
  CHECK(cudnnSoftmaxForward(cudnn, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, tensor,
                            large.data(), &zero, tensor, ys.data()));
  lesson::compare("log of large logits", ys.host(), y, 1e-3);
  // end large

  // region wrong
  const lesson::TensorDescriptor other;
  CHECK(cudnnSetTensor4dDescriptor(other, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, 1, 1));
  SHOULD_FAIL(cudnnSoftmaxForward(cudnn, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one,
                                  tensor, xs.data(), &zero, other, ys.data()),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 09: softmax",
                     "Computes softmax over images and over channels, fast, accurate and as a "
                     "logarithm, and lets the fast one overflow.",
                     teach);
}
