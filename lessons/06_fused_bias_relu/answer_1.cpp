// Lesson 06, exercise 1: the end of a residual block, z read from where y is written.
#define main main_of_the_lesson
#include "fused_bias_relu.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kH, 1);
  const std::vector<float> w = lesson::random_values(kK * kC * kR * kR, 2);
  const std::vector<float> b = lesson::random_values(kK, 3);
  const lesson::Array<float> xs(x), ws(w), bs(b);
  const float one = 1;
  const auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  size_t bytes = 0;
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y, algorithm,
                                                &bytes));
  const lesson::Array<char> workspace(bytes);
  // region answer
  // As many channels out as in, so z = x is allowed. It is copied to y first: y may be z's memory.
  const lesson::Array<float> ys(x);
  CHECK(cudnnConvolutionBiasActivationForward(
      cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution, algorithm, workspace.data(),
      bytes, &one, d.y, ys.data(), d.bias, bs.data(), d.relu, d.y, ys.data()));
  std::vector<double> expected = plain_convolution(x, w);
  for (size_t i = 0; i < expected.size(); ++i) {
    expected[i] = std::max(0.0, expected[i] + x[i] + b[i / (kH * kH) % kK]);
  }
  lesson::compare("relu(convolution(x) + x + b)", ys.host(), expected, 1e-3);
  // end answer
}

int main() {
  return lesson::run("Lesson 06, answer 1", "The end of a residual block in one call.", answer);
}
