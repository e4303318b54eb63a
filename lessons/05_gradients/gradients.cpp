// Lesson 05: the gradients of a convolution: of x (backward data), of w (backward filter), of the bias.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 3, kC = 4, kH = 9, kW = 8, kK = 5, kR = 3;  // 3x3, padding 1, stride 2
constexpr int kPad = 1, kStride = 2, kP = 5, kQ = 4;
// end constants

struct Descriptors {
  lesson::TensorDescriptor x, y, bias;
  lesson::FilterDescriptor w;
  lesson::ConvolutionDescriptor convolution;
  Descriptors() {
    CHECK(cudnnSetTensor4dDescriptor(x, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
    CHECK(cudnnSetTensor4dDescriptor(y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kK, kP, kQ));
    CHECK(cudnnSetTensor4dDescriptor(bias, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, kK, 1, 1));
    CHECK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, kK, kC, kR, kR));
    CHECK(cudnnSetConvolution2dDescriptor(convolution, kPad, kPad, kStride, kStride, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CHECK(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
  }
};

// region products
/// Calls f(index of x, of w, of y) for every product x * w that the convolution adds to a y. All three
/// passes are this one walk: forward adds x * w to y, backward data dy * w to dx, backward filter
/// dy * x to dw.
template <class F>
void for_each_product(F f) {
  for (int y = 0; y < kN * kK * kP * kQ; ++y) {
    const int n = y / (kK * kP * kQ), k = y / (kP * kQ) % kK, p = y / kQ % kP, q = y % kQ;
    for (int i = 0; i < kC * kR * kR; ++i) {
      const int c = i / (kR * kR), r = i / kR % kR, s = i % kR;
      const int row = p * kStride - kPad + r, column = q * kStride - kPad + s;
      if (row < 0 || row >= kH || column < 0 || column >= kW) continue;
      f(((n * kC + c) * kH + row) * kW + column, k * kC * kR * kR + i, y);
    }
  }
}
// end products

void teach() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  const std::vector<float> w = lesson::random_values(kK * kC * kR * kR, 2);
  const std::vector<float> dy = lesson::random_values(kN * kK * kP * kQ, 3);
  std::vector<double> dx(x.size()), dw(w.size()), db(kK);
  for_each_product([&](int ix, int iw, int iy) {
    dx[ix] += double(dy[iy]) * w[iw];
    dw[iw] += double(dy[iy]) * x[ix];
  });
  for (size_t i = 0; i < dy.size(); ++i) db[i / (kP * kQ) % kK] += dy[i];

  // region memory
  const lesson::Array<float> xs(x), ws(w), dys(dy), dxs(x.size()), dws(w.size()), dbs(kK);
  const float one = 1, zero = 0;
  // end memory

  // region data
  cudnnConvolutionBwdDataAlgoPerf_t data;
  int found = 0;
  CHECK(cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnn, d.w, d.y, d.convolution, d.x, 1, &found,
                                                    &data));
  CHECK(data.status);
  std::printf("backward data: algorithm %d, %zu bytes, %s\n", data.algo, data.memory,
              data.determinism == CUDNN_DETERMINISTIC ? "deterministic" : "not deterministic");
  const lesson::Array<char> room(data.memory);
  CHECK(cudnnConvolutionBackwardData(cudnn, &one, d.w, ws.data(), d.y, dys.data(), d.convolution,
                                     data.algo, room.data(), room.bytes(), &zero, d.x, dxs.data()));
  lesson::compare("dx", dxs.host(), dx, 1e-4);
  // end data

  // region filter
  cudnnConvolutionBwdFilterAlgoPerf_t filter;
  CHECK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnn, d.x, d.y, d.convolution, d.w, 1,
                                                      &found, &filter));
  CHECK(filter.status);
  std::printf("backward filter: algorithm %d, %zu bytes, %s\n", filter.algo, filter.memory,
              filter.determinism == CUDNN_DETERMINISTIC ? "deterministic" : "not deterministic");
  const lesson::Array<char> more_room(filter.memory);
  CHECK(cudnnConvolutionBackwardFilter(cudnn, &one, d.x, xs.data(), d.y, dys.data(), d.convolution,
                                       filter.algo, more_room.data(), more_room.bytes(), &zero, d.w,
                                       dws.data()));
  lesson::compare("dw", dws.host(), dw, 1e-4);
  // end filter

  // region bias
  CHECK(cudnnConvolutionBackwardBias(cudnn, &one, d.y, dys.data(), &zero, d.bias, dbs.data()));
  lesson::compare("db", dbs.host(), db, 1e-4);
  // end bias

  // region add
  // beta 1 adds to what is there: two batches with one update.
  CHECK(cudnnConvolutionBackwardFilter(cudnn, &one, d.x, xs.data(), d.y, dys.data(), d.convolution,
                                       filter.algo, more_room.data(), more_room.bytes(), &one, d.w,
                                       dws.data()));
  std::vector<double> twice = dw;
  for (double& value : twice) value *= 2;
  lesson::compare("dw added to dw", dws.host(), twice, 2e-4);
  // end add

  // region wrong
  // x and dy exchanged: the sizes of a gradient belong where the forward pass had its tensor.
  SHOULD_FAIL(
      cudnnConvolutionBackwardData(cudnn, &one, d.w, ws.data(), d.x, dys.data(), d.convolution,
                                   data.algo, room.data(), room.bytes(), &zero, d.y, dxs.data()),
      CUDNN_STATUS_BAD_PARAM);
  // end wrong
}

int main() {
  return lesson::run("Lesson 05: gradients of a convolution",
                     "Computes the gradients of x, w and the bias of a 3x3 convolution with stride "
                     "2, and adds one to another by beta.",
                     teach);
}
