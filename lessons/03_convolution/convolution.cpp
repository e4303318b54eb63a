// Lesson 03: filters and the forward convolution: correlation, padding, stride, dilation, groups, and
// the arithmetic that float32 convolutions run in unless told otherwise.
#include <cudnn.h>

#include "../lesson.h"

// region fields
struct Convolution {
  const char* name;
  int n = 2, c = 3, h = 8, w = 9;  // x
  int k = 4, r = 3, s = 3;         // filters: k x c/groups x r x s
  int pad = 0, stride = 1, dilation = 1, groups = 1;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

  int out(int size, int kernel) const {
    return 1 + (size + 2 * pad - ((kernel - 1) * dilation + 1)) / stride;
  }
};
// end fields

// region plain
/// The definition, as loops.
std::vector<double> plain(const Convolution& v, const std::vector<float>& x,
                          const std::vector<float>& w) {
  const int p = v.out(v.h, v.r), q = v.out(v.w, v.s), cg = v.c / v.groups, kg = v.k / v.groups;
  std::vector<double> y;
  for (int n = 0; n < v.n; ++n) {
    for (int k = 0; k < v.k; ++k) {
      for (int i = 0; i < p * q; ++i) {
        double sum = 0;
        for (int c = 0; c < cg; ++c) {
          for (int r = 0; r < v.r; ++r) {
            for (int s = 0; s < v.s; ++s) {
              const int row = i / q * v.stride - v.pad + r * v.dilation;
              const int column = i % q * v.stride - v.pad + s * v.dilation;
              if (row < 0 || row >= v.h || column < 0 || column >= v.w) continue;  // padding is 0
              const bool flipped = v.mode == CUDNN_CONVOLUTION;
              const int fr = flipped ? v.r - 1 - r : r, fs = flipped ? v.s - 1 - s : s;
              const int channel = k / kg * cg + c;  // group k / kg reads its own channels
              sum += double(x[((n * v.c + channel) * v.h + row) * v.w + column]) *
                     w[((k * cg + c) * v.r + fr) * v.s + fs];
            }
          }
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}
// end plain

/// y as cuDNN computes it with this arithmetic; prints what was chosen, and the time.
std::vector<float> by_cudnn(cudnnHandle_t cudnn, const Convolution& v, const std::vector<float>& x,
                            const std::vector<float>& w, cudnnMathType_t math) {
  // region descriptors
  const lesson::TensorDescriptor xd, yd;
  const lesson::FilterDescriptor wd;
  const lesson::ConvolutionDescriptor convolution;
  CHECK(cudnnSetTensor4dDescriptor(xd, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, v.n, v.c, v.h, v.w));
  // For filters type and format are the other way round, and C is that of one group.
  CHECK(cudnnSetFilter4dDescriptor(wd, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, v.k, v.c / v.groups,
                                   v.r, v.s));
  CHECK(cudnnSetConvolution2dDescriptor(convolution, v.pad, v.pad, v.stride, v.stride, v.dilation,
                                        v.dilation, v.mode, CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionGroupCount(convolution, v.groups));
  CHECK(cudnnSetConvolutionMathType(convolution, math));
  int n, k, p, q;  // never compute y's sizes yourself: ask
  CHECK(cudnnGetConvolution2dForwardOutputDim(convolution, xd, wd, &n, &k, &p, &q));
  CHECK(cudnnSetTensor4dDescriptor(yd, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, k, p, q));
  // end descriptors

  // region run
  cudnnConvolutionFwdAlgoPerf_t choice;
  int found = 0;
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(cudnn, xd, wd, convolution, yd, 1, &found, &choice));
  CHECK(choice.status);
  if (math != CUDNN_FMA_MATH) {  // else there is no choice
    CHECK(cudnnSetConvolutionMathType(convolution, choice.mathType));
  }
  const lesson::Array<float> xs(x), ws(w), ys(static_cast<size_t>(n) * k * p * q);
  const lesson::Array<char> workspace(choice.memory);
  const float one = 1, zero = 0;
  const double us = lesson::microseconds([&] {
    CHECK(cudnnConvolutionForward(cudnn, &one, xd, xs.data(), wd, ws.data(), convolution,
                                  choice.algo, workspace.data(), workspace.bytes(), &zero, yd,
                                  ys.data()));
  });
  // end run
  std::printf("%s: y is %d %d %d %d; algorithm %d, math type %d, %zu bytes of workspace, %.1f us\n",
              v.name, n, k, p, q, choice.algo, choice.mathType, workspace.bytes(), us);
  return ys.host();
}

void check(cudnnHandle_t cudnn, const Convolution& v) {
  const auto x = lesson::random_values(static_cast<size_t>(v.n) * v.c * v.h * v.w, 1);
  const auto w = lesson::random_values(static_cast<size_t>(v.k) * v.c / v.groups * v.r * v.s, 2);
  lesson::compare(v.name, by_cudnn(cudnn, v, x, w, CUDNN_FMA_MATH), plain(v, x, w), 1e-4);
}

void teach() {
  const lesson::Handle cudnn;
  // region cases
  check(cudnn, {.name = "3x3"});
  check(cudnn, {.name = "flipped", .mode = CUDNN_CONVOLUTION});
  check(cudnn, {.name = "padding 1", .pad = 1});
  check(cudnn, {.name = "stride 2", .pad = 1, .stride = 2});
  check(cudnn, {.name = "dilation 2", .pad = 2, .dilation = 2});
  check(cudnn, {.name = "2 groups", .c = 4, .k = 6, .pad = 1, .groups = 2});
  // end cases

  // region tf32
  const Convolution large = {
      .name = "256 channels", .n = 8, .c = 256, .h = 14, .w = 14, .k = 64, .pad = 1};
  const auto x = lesson::random_values(8 * 256 * 14 * 14, 3);
  const auto w = lesson::random_values(64 * 256 * 3 * 3, 4);
  const std::vector<double> expected = plain(large, x, w);
  const auto fma = by_cudnn(cudnn, large, x, w, CUDNN_FMA_MATH);
  const auto unasked = by_cudnn(cudnn, large, x, w, CUDNN_DEFAULT_MATH);
  std::printf("largest error: CUDNN_FMA_MATH %.2g, CUDNN_DEFAULT_MATH %.2g\n",
              lesson::largest_difference(fma, expected),
              lesson::largest_difference(unasked, expected));
  lesson::compare("CUDNN_FMA_MATH", fma, expected, 1e-3);
  lesson::compare("CUDNN_DEFAULT_MATH", unasked, expected, 0.1);
  // end tf32

  // region wrong
  const lesson::TensorDescriptor xd;
  const lesson::FilterDescriptor wd;
  const lesson::ConvolutionDescriptor convolution;
  CHECK(cudnnSetTensor4dDescriptor(xd, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 4, 8, 8));
  CHECK(cudnnSetFilter4dDescriptor(wd, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 6, 4, 3, 3));
  CHECK(cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION,
                                        CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionGroupCount(convolution, 2));  // but wd has the channels of both groups
  int n, k, p, q;
  SHOULD_FAIL(cudnnGetConvolution2dForwardOutputDim(convolution, xd, wd, &n, &k, &p, &q),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 03: the convolution",
                     "Convolves with padding, stride, dilation, groups and a flipped filter, and "
                     "shows what float32 means to cuDNN by default.",
                     teach);
}
