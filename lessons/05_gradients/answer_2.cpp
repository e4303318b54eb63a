// Lesson 05, exercise 2: dw checked without a formula, by differences of the loss.
#define main main_of_the_lesson
#include "gradients.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  const std::vector<float> dy = lesson::random_values(kN * kK * kP * kQ, 3);
  std::vector<float> w = lesson::random_values(kK * kC * kR * kR, 2);
  const lesson::Array<float> xs(x), dys(dy), dws(w.size()), ys(dy.size());
  const float one = 1, zero = 0;

  const auto filter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  size_t bytes = 0;
  CHECK(cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnn, d.x, d.y, d.convolution, d.w, filter,
                                                       &bytes));
  const lesson::Array<char> workspace(bytes);
  CHECK(cudnnConvolutionBackwardFilter(cudnn, &one, d.x, xs.data(), d.y, dys.data(), d.convolution,
                                       filter, workspace.data(), bytes, &zero, d.w, dws.data()));

  const auto forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y, forward,
                                                &bytes));
  const lesson::Array<char> room(bytes);

  // region answer
  // With the loss sum(dy * y) the gradient of y is dy. It is linear in w: any step gives the slope.
  const auto loss = [&] {
    const lesson::Array<float> ws(w);
    CHECK(cudnnConvolutionForward(cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution,
                                  forward, room.data(), room.bytes(), &zero, d.y, ys.data()));
    const std::vector<float> y = ys.host();
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += double(dy[i]) * y[i];
    return sum;
  };
  std::vector<double> slopes;
  for (float& weight : w) {
    const float kept = weight;
    weight = kept + 0.5f;
    const double above = loss();
    weight = kept - 0.5f;
    slopes.push_back(above - loss());
    weight = kept;
  }
  lesson::compare("dw by differences", dws.host(), slopes, 1e-4);
  // end answer
}

int main() {
  return lesson::run("Lesson 05, answer 2", "Checks dw by differences of the loss.", answer);
}
