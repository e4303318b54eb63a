// Lesson 05, exercise 1: a transposed convolution, which is backward data used as a forward pass.
#define main main_of_the_lesson
#include "gradients.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  // region answer
  // Images of 5 x 4 grow to 9 x 8. What the convolution calls y is the input here.
  const std::vector<float> small = lesson::random_values(kN * kK * kP * kQ, 1);
  const std::vector<float> w = lesson::random_values(kK * kC * kR * kR, 2);
  std::vector<double> expected(kN * kC * kH * kW);
  for_each_product(
      [&](int large, int iw, int iy) { expected[large] += double(small[iy]) * w[iw]; });
  const lesson::Array<float> in(small), ws(w), out(expected.size());
  const float one = 1, zero = 0;
  const auto algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;  // deterministic
  size_t bytes = 0;
  CHECK(cudnnGetConvolutionBackwardDataWorkspaceSize(cudnn, d.w, d.y, d.convolution, d.x, algorithm,
                                                     &bytes));
  const lesson::Array<char> workspace(bytes);
  CHECK(cudnnConvolutionBackwardData(cudnn, &one, d.w, ws.data(), d.y, in.data(), d.convolution,
                                     algorithm, workspace.data(), bytes, &zero, d.x, out.data()));
  lesson::compare("the transposed convolution", out.host(), expected, 1e-4);
  // end answer
}

int main() {
  return lesson::run("Lesson 05, answer 1", "A transposed convolution with stride 2.", answer);
}
