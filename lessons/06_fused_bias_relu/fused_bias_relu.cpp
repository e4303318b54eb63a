// Lesson 06: convolution, sum with another tensor, bias and relu in one call.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 8, kC = 32, kH = 28, kK = 32, kR = 3;  // 3x3, padding 1
constexpr float kHalf = 0.5f;
// end constants

struct Descriptors {
  lesson::TensorDescriptor x, y, bias;
  lesson::FilterDescriptor w;
  lesson::ConvolutionDescriptor convolution;
  lesson::ActivationDescriptor relu;
  Descriptors() {
    CHECK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kH));
    CHECK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kK, kH, kH));
    CHECK(cudnnSetTensor4dDescriptor(bias, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, kK, 1, 1));
    CHECK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kK, kC, kR, kR));
    CHECK(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    CHECK(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
    CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
  }
};

/// The convolution alone, without bias.
std::vector<double> plain_convolution(const std::vector<float>& x, const std::vector<float>& w) {
  std::vector<double> y;
  for (int i = 0; i < kN * kK * kH * kH; ++i) {
    const int n = i / (kK * kH * kH), k = i / (kH * kH) % kK, p = i / kH % kH, q = i % kH;
    double sum = 0;
    for (int j = 0; j < kC * kR * kR; ++j) {
      const int c = j / (kR * kR), row = p + j / kR % kR - 1, column = q + j % kR - 1;
      if (row < 0 || row >= kH || column < 0 || column >= kH) continue;
      sum += double(x[((n * kC + c) * kH + row) * kH + column]) * w[k * kC * kR * kR + j];
    }
    y.push_back(sum);
  }
  return y;
}

void teach() {
  const lesson::Handle cudnn;
  const Descriptors d;
  // region memory
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kH, 1);
  const std::vector<float> w = lesson::random_values(kK * kC * kR * kR, 2);
  const std::vector<float> b = lesson::random_values(kK, 3);
  const std::vector<float> z = lesson::random_values(kN * kK * kH * kH, 4);
  const lesson::Array<float> xs(x), ws(w), bs(b), zs(z), ys(z.size());
  const float one = 1, zero = 0;
  // end memory
  const auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  size_t bytes = 0;
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y, algorithm,
                                                &bytes));
  const lesson::Array<char> workspace(bytes);

  // region fused
  // y = relu(1 * convolution(x, w) + 0.5 * z + b)
  const auto fused = [&] {
    CHECK(cudnnConvolutionBiasActivationForward(
        cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution, algorithm, workspace.data(),
        bytes, &kHalf, d.y, zs.data(), d.bias, bs.data(), d.relu, d.y, ys.data()));
  };
  fused();
  // end fused

  // region plain
  std::vector<double> expected = plain_convolution(x, w);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::max(0.0, expected[i] + kHalf * z[i] + b[i / (kH * kH) % kK]);
  }
  lesson::compare("fused", ys.host(), expected, 1e-3);
  // end plain

  // region separate
  const auto separate = [&] {
    CHECK(cudnnConvolutionForward(cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution,
                                  algorithm, workspace.data(), bytes, &zero, d.y, ys.data()));
    CHECK(cudnnAddTensor(cudnn, &kHalf, d.y, zs.data(), &one, d.y, ys.data()));
    CHECK(cudnnAddTensor(cudnn, &one, d.bias, bs.data(), &one, d.y, ys.data()));
    CHECK(cudnnActivationForward(cudnn, d.relu, &one, d.y, ys.data(), &zero, d.y, ys.data()));
  };
  separate();
  lesson::compare("four calls", ys.host(), expected, 1e-3);
  const double apart = lesson::microseconds(separate), together = lesson::microseconds(fused);
  std::printf("four calls %.1f us, one call %.1f us: %.2f times as fast\n", apart, together,
              apart / together);
  // end separate

  // region identity
  // The bias without relu: an activation that exists for this call alone.
  CHECK(
      cudnnSetActivationDescriptor(d.relu, CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0));
  CHECK(cudnnConvolutionBiasActivationForward(
      cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution, algorithm, workspace.data(),
      bytes, &zero, d.y, ys.data(), d.bias, bs.data(), d.relu, d.y, ys.data()));
  expected = plain_convolution(x, w);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += b[i / (kH * kH) % kK];
  lesson::compare("bias alone", ys.host(), expected, 1e-3);
  // end identity

  // region wrong
  CHECK(cudnnSetActivationDescriptor(d.relu, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0));
  SHOULD_FAIL(cudnnConvolutionBiasActivationForward(cudnn, &one, d.x, xs.data(), d.w, ws.data(),
                                                    d.convolution, algorithm, workspace.data(),
                                                    bytes, &zero, d.y, ys.data(), d.bias, bs.data(),
                                                    d.relu, d.y, ys.data()),
              CUDNN_STATUS_NOT_SUPPORTED);
  // end wrong
}

int main() {
  return lesson::run("Lesson 06: convolution, bias and relu in one call",
                     "Computes relu(convolution + 0.5 z + bias) by one call and by four, compares "
                     "both with loops and times them.",
                     teach);
}
