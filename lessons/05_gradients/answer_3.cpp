// Lesson 05, exercise 3: which algorithms of backward filter give the same bits every time.
#define main main_of_the_lesson
#include "gradients.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  const std::vector<float> dy = lesson::random_values(kN * kK * kP * kQ, 3);
  std::vector<double> dw(kK * kC * kR * kR);
  for_each_product([&](int ix, int iw, int iy) { dw[iw] += double(dy[iy]) * x[ix]; });
  const lesson::Array<float> xs(x), dys(dy), dws(dw.size());
  const float one = 1, zero = 0;
  // region answer
  // Ask what cuDNN says of each algorithm, then run it ten times.
  constexpr int kMost = 2 * CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  cudnnConvolutionBwdFilterAlgoPerf_t rows[kMost];
  int found = 0, deterministic = 0;
  CHECK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnn, d.x, d.y, d.convolution, d.w, kMost,
                                                      &found, rows));
  for (int i = 0; i < found; ++i) {
    if (rows[i].status != CUDNN_STATUS_SUCCESS) continue;
    const lesson::Array<char> workspace(rows[i].memory);
    const auto run = [&] {
      return cudnnConvolutionBackwardFilter(cudnn, &one, d.x, xs.data(), d.y, dys.data(),
                                            d.convolution, rows[i].algo, workspace.data(),
                                            workspace.bytes(), &zero, d.w, dws.data());
    };
    if (run() != CUDNN_STATUS_SUCCESS) continue;
    const std::vector<float> first = dws.host();
    int different = 0;
    for (int again = 0; again < 10; ++again) {
      CHECK(run());
      different += dws.host() != first;
    }
    const bool promised = rows[i].determinism == CUDNN_DETERMINISTIC;
    std::printf("algorithm %d, %s: %d of 10 runs gave other bits\n", rows[i].algo,
                promised ? "deterministic" : "not deterministic", different);
    lesson::compare(" dw", first, dw, 1e-4);
    if (!promised) continue;
    ++deterministic;
    lesson::expect(" the same bits every time", different == 0);
  }
  lesson::expect("there is one with the same bits every time", deterministic > 0);
  // end answer
}

int main() {
  return lesson::run("Lesson 05, answer 3", "Runs each algorithm of backward filter ten times.",
                     answer);
}
