// Lesson 07: pooling: largest values and both averages, padding, equal values, NaN.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 2, kC = 3, kH = 7, kW = 6, kWindow = 3, kStride = 2, kPad = 1, kP = 4, kQ = 3;
// end constants

struct Descriptors {
  lesson::TensorDescriptor x, y;
  lesson::PoolingDescriptor pooling;
  Descriptors() {
    CHECK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
    CHECK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kP, kQ));
  }
  void set(cudnnPoolingMode_t mode, cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN) const {
    CHECK(cudnnSetPooling2dDescriptor(pooling, mode, nan, kWindow, kWindow, kPad, kPad, kStride,
                                      kStride));
  }
};

// region windows
/// The places in x that the window of each y covers, without those in the padding.
std::vector<std::vector<int>> windows() {
  std::vector<std::vector<int>> all;
  for (int i = 0; i < kN * kC * kP * kQ; ++i) {
    const int plane = i / (kP * kQ), p = i / kQ % kP, q = i % kQ;
    std::vector<int>& window = all.emplace_back();
    for (int r = 0; r < kWindow; ++r) {
      for (int s = 0; s < kWindow; ++s) {
        const int row = p * kStride - kPad + r, column = q * kStride - kPad + s;
        if (row < 0 || row >= kH || column < 0 || column >= kW) continue;
        window.push_back((plane * kH + row) * kW + column);
      }
    }
  }
  return all;
}
// end windows

// region plain
/// y, and dx = the gradient of x. Of equal largest values the first gets dy.
void plain(cudnnPoolingMode_t mode, const std::vector<float>& x, const std::vector<float>& dy,
           std::vector<double>& y, std::vector<double>& dx) {
  y.clear();
  dx.assign(x.size(), 0);
  for (const std::vector<int>& window : windows()) {
    const float gradient = dy[y.size()];
    if (mode == CUDNN_POOLING_MAX || mode == CUDNN_POOLING_MAX_DETERMINISTIC) {
      int best = window[0];
      for (const int i : window) {
        if (x[i] > x[best]) best = i;
      }
      y.push_back(x[best]);
      dx[best] += gradient;
      continue;
    }
    const double count = mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                             ? kWindow * kWindow
                             : static_cast<double>(window.size());
    double sum = 0;
    for (const int i : window) {
      sum += x[i];
      dx[i] += gradient / count;
    }
    y.push_back(sum / count);
  }
}
// end plain

void teach() {
  const lesson::Handle cudnn;
  const Descriptors d;
  // region sizes
  d.set(CUDNN_POOLING_MAX_DETERMINISTIC);
  int n, c, p, q;
  CHECK(cudnnGetPooling2dForwardOutputDim(d.pooling, d.x, &n, &c, &p, &q));
  std::printf("a window of 3x3, stride 2, padding 1: %dx%d -> %dx%d\n", kH, kW, p, q);
  lesson::expect("y has the sizes that cuDNN computes", n == kN && c == kC && p == kP && q == kQ);
  // end sizes

  // region both
  // Whole numbers from -4 to 3: many windows hold their largest value more than once.
  std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  for (float& value : x) value = std::floor(4 * value);
  const std::vector<float> dy = lesson::random_values(kN * kC * kP * kQ, 2);
  const lesson::Array<float> xs(x), dys(dy), ys(dy.size()), dxs(x.size());
  const float one = 1, zero = 0;
  std::vector<double> y, dx;
  const std::pair<const char*, cudnnPoolingMode_t> modes[] = {
      {"max", CUDNN_POOLING_MAX_DETERMINISTIC},
      {"average, padding counted", CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING},
      {"average, padding not counted", CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING}};
  for (const auto& [name, mode] : modes) {
    d.set(mode);
    plain(mode, x, dy, y, dx);
    CHECK(cudnnPoolingForward(cudnn, d.pooling, &one, d.x, xs.data(), &zero, d.y, ys.data()));
    CHECK(cudnnPoolingBackward(cudnn, d.pooling, &one, d.y, ys.data(), d.y, dys.data(), d.x,
                               xs.data(), &zero, d.x, dxs.data()));
    std::printf("%s, corner of the first image: %.3f\n", name, ys.host()[0]);
    lesson::compare(" y", ys.host(), y, 1e-5);
    lesson::compare(" dx", dxs.host(), dx, 1e-5);
  }
  // end both

  // region nan
  std::vector<float> sick = x;
  sick[0] = NAN;  // in the window of the first y alone
  const lesson::Array<float> sicks(sick);
  d.set(CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN);
  CHECK(cudnnPoolingForward(cudnn, d.pooling, &one, d.x, sicks.data(), &zero, d.y, ys.data()));
  plain(CUDNN_POOLING_MAX, x, dy, y, dx);
  y[0] = NAN;
  lesson::compare("CUDNN_PROPAGATE_NAN", ys.host(), y);
  d.set(CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_NOT_PROPAGATE_NAN);
  CHECK(cudnnPoolingForward(cudnn, d.pooling, &one, d.x, sicks.data(), &zero, d.y, ys.data()));
  std::printf("CUDNN_NOT_PROPAGATE_NAN: %g; the largest of the others is %g\n", ys.host()[0],
              std::max({x[1], x[kW], x[kW + 1]}));
  // end nan

  // region wrong
  // Pooling keeps channels apart: y has as many as x.
  CHECK(cudnnSetTensor4dDescriptor(d.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC - 1, kP, kQ));
  SHOULD_FAIL(cudnnPoolingForward(cudnn, d.pooling, &one, d.x, xs.data(), &zero, d.y, ys.data()),
              CUDNN_STATUS_BAD_PARAM);
  // A window larger than the image and its padding.
  CHECK(cudnnSetPooling2dDescriptor(d.pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 9, 9, 0, 0,
                                    1, 1));
  SHOULD_FAIL(cudnnGetPooling2dForwardOutputDim(d.pooling, d.x, &n, &c, &p, &q),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 07: pooling",
                     "Pools by maximum and by both averages, forward and backward, with equal "
                     "values, padding and NaN.",
                     teach);
}
