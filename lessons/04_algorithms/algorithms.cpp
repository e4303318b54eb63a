// Lesson 04: the algorithms of a convolution: cuDNN's guess, cuDNN's search, and a search of our own;
// workspace, error and repeatability of each.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 8, kC = 32, kH = 28, kK = 64, kR = 3;  // 3x3, padding 1: y is as large as x
// end constants

const char* name_of(int algorithm) {
  static const char* const names[CUDNN_CONVOLUTION_FWD_ALGO_COUNT] = {
      "implicit gemm", "implicit precomp gemm", "gemm", "direct", "fft", "fft tiling",
      "winograd",      "winograd nonfused"};
  return algorithm >= 0 && algorithm < CUDNN_CONVOLUTION_FWD_ALGO_COUNT ? names[algorithm] : "none";
}

/// Every y of the convolution of x with w.
std::vector<double> plain(const std::vector<float>& x, const std::vector<float>& w) {
  std::vector<double> y;
  for (int i = 0; i < kN * kK * kH * kH; ++i) {
    const int n = i / (kK * kH * kH), k = i / (kH * kH) % kK, p = i / kH % kH, q = i % kH;
    double sum = 0;
    for (int c = 0; c < kC; ++c) {
      for (int r = 0; r < kR; ++r) {
        for (int s = 0; s < kR; ++s) {
          const int row = p + r - 1, column = q + s - 1;
          if (row < 0 || row >= kH || column < 0 || column >= kH) continue;
          sum += double(x[((n * kC + c) * kH + row) * kH + column]) *
                 w[((k * kC + c) * kR + r) * kR + s];
        }
      }
    }
    y.push_back(sum);
  }
  return y;
}

void print(const char* who, const cudnnConvolutionFwdAlgoPerf_t& row) {
  std::printf("%-10s %-22s", who, name_of(row.algo));
  if (row.status != CUDNN_STATUS_SUCCESS) {
    std::printf(" cannot: %s\n", cudnnGetErrorString(row.status));
    return;
  }
  std::printf(" %8.1f us %10zu bytes, %s\n", 1000 * row.time, row.memory,
              row.determinism == CUDNN_DETERMINISTIC ? "deterministic" : "not deterministic");
}

struct Descriptors {
  lesson::TensorDescriptor x, y;
  lesson::FilterDescriptor w;
  lesson::ConvolutionDescriptor convolution;
  Descriptors() {
    CHECK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kH));
    CHECK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kK, kH, kH));
    CHECK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kK, kC, kR, kR));
    CHECK(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                          CUDNN_DATA_FLOAT));
    CHECK(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
  }
};

void teach() {
  const lesson::Handle cudnn;
  const Descriptors d;
  // region memory
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kH, 1);
  const std::vector<float> w = lesson::random_values(kK * kC * kR * kR, 2);
  const std::vector<double> expected = plain(x, w);
  const lesson::Array<float> xs(x), ws(w), ys(expected.size());
  const float one = 1, zero = 0;
  // end memory

  // region guess
  constexpr int kMost = 2 * CUDNN_CONVOLUTION_FWD_ALGO_COUNT;  // each in up to two math types
  cudnnConvolutionFwdAlgoPerf_t rows[kMost];
  int found = 0;
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(cudnn, d.x, d.w, d.convolution, d.y, kMost, &found,
                                               rows));
  std::printf("cuDNN's guess, without running anything, is %s\n", name_of(rows[0].algo));
  // end guess

  // region find
  const lesson::Array<char> room(size_t{256} << 20);
  CHECK(cudnnFindConvolutionForwardAlgorithmEx(cudnn, d.x, xs.data(), d.w, ws.data(), d.convolution,
                                               d.y, ys.data(), kMost, &found, rows, room.data(),
                                               room.bytes()));
  for (int i = 0; i < found; ++i) print("find", rows[i]);
  // end find

  // region own
  int usable = 0, fastest = -1, largest = -1;
  size_t most = 0;  // workspace, of algorithm `largest`
  double shortest = INFINITY;
  for (int i = 0; i < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; ++i) {
    const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(i);
    size_t bytes = 0;
    if (cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y, algorithm,
                                                &bytes) != CUDNN_STATUS_SUCCESS ||
        bytes > room.bytes()) {
      continue;  // not for these sizes
    }
    const auto convolve = [&] {
      return cudnnConvolutionForward(cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution,
                                     algorithm, room.data(), bytes, &zero, d.y, ys.data());
    };
    if (convolve() != CUDNN_STATUS_SUCCESS) continue;
    const std::vector<float> first = ys.host();
    const double us = lesson::microseconds([&] { CHECK(convolve()); });
    std::printf("own        %-22s %8.1f us %10zu bytes, the same bits again: %s\n", name_of(i), us,
                bytes, ys.host() == first ? "yes" : "no");
    lesson::compare(name_of(i), first, expected, 1e-3);
    ++usable;
    if (bytes > most) {
      most = bytes;
      largest = i;
    }
    if (us < shortest) {
      shortest = us;
      fastest = i;
    }
  }
  std::printf("fastest of %d: %s\n", usable, name_of(fastest));
  // end own
  lesson::expect("there is a choice, and one of them takes a workspace", usable > 1 && most > 0);

  // region wrong
  std::printf("%s wants %zu bytes of workspace\n", name_of(largest), most);
  SHOULD_FAIL(cudnnConvolutionForward(cudnn, &one, d.x, xs.data(), d.w, ws.data(), d.convolution,
                                      static_cast<cudnnConvolutionFwdAlgo_t>(largest), room.data(),
                                      most / 2, &zero, d.y, ys.data()),
              CUDNN_STATUS_BAD_PARAM);
  size_t bytes = 0;
  SHOULD_FAIL(cudnnGetConvolutionForwardWorkspaceSize(cudnn, d.x, d.w, d.convolution, d.y,
                                                      CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, &bytes),
              CUDNN_STATUS_NOT_SUPPORTED);
  // end wrong
}

int main() {
  return lesson::run("Lesson 04: algorithms",
                     "Asks cuDNN for its choice, lets it search, then times and checks every "
                     "algorithm itself.",
                     teach);
}
