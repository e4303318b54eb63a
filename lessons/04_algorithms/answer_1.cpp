// Lesson 04, exercise 1: the fastest algorithm that needs at most so much workspace.
#define main main_of_the_lesson
#include "algorithms.cpp"
#undef main

// region answer
/// Times what runs within `limit` bytes; the number of the fastest.
int fastest_within(cudnnHandle_t cudnn, const Descriptors& d, size_t limit,
                   const lesson::Array<float>& x, const lesson::Array<float>& w,
                   const lesson::Array<float>& y) {
  const float one = 1, zero = 0;
  int best = -1;
  double shortest = INFINITY;
  for (int i = 0; i < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; ++i) {
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(i);
    size_t bytes = 0;
    if (cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y, algorithm,
                                                &bytes) != CUDNN_STATUS_SUCCESS ||
        bytes > limit) {
      continue;
    }
    const lesson::Array<char> workspace(bytes);
    const auto convolve = [&] {
      return cudnnConvolutionForward(cudnn, &one, d.x, x.data(), d.w, w.data(), d.convolution,
                                     algorithm, workspace.data(), bytes, &zero, d.y, y.data());
    };
    if (convolve() != CUDNN_STATUS_SUCCESS) continue;
    const double us = lesson::microseconds([&] { CHECK(convolve()); });
    if (us >= shortest) continue;
    shortest = us;
    best = i;
  }
  std::printf("within %9zu bytes: %s, %.1f us\n", limit, name_of(best), shortest);
  return best;
}
// end answer

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kH, 1);
  const std::vector<float> w = lesson::random_values(kK * kC * kR * kR, 2);
  const std::vector<double> expected = plain(x, w);
  const lesson::Array<float> xs(x), ws(w), ys(expected.size());
  const float one = 1, zero = 0;
  for (const size_t limit : {size_t{0}, size_t{1} << 16, size_t{256} << 20}) {
    const int best = fastest_within(cudnn, d, limit, xs, ws, ys);
    lesson::expect("there is one", best >= 0);
    if (best < 0) continue;
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(best);
    size_t bytes = 0;
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y, algorithm,
                                                  &bytes));
    const lesson::Array<char> workspace(bytes);
    CHECK(cudnnConvolutionForward(cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution,
                                  algorithm, workspace.data(), bytes, &zero, d.y, ys.data()));
    lesson::compare(name_of(best), ys.host(), expected, 1e-3);
  }
}

int main() {
  return lesson::run("Lesson 04, answer 1", "The fastest algorithm within a workspace.", answer);
}
