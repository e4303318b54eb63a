// Lesson 02: tensor descriptors: sizes, strides, NCHW and NHWC.
#include <cudnn.h>

#include "../lesson.h"

// region constants
constexpr int kN = 2, kC = 3, kH = 4, kW = 5;
// end constants

// region offset
/// What a descriptor says: where element (n, c, h, w) lies, counted in elements.
struct Strides {
  int n, c, h, w;
  size_t offset(int in, int ic, int ih, int iw) const {
    return static_cast<size_t>(in) * n + static_cast<size_t>(ic) * c + static_cast<size_t>(ih) * h +
           static_cast<size_t>(iw) * w;
  }
};
// end offset

/// The strides that cuDNN keeps in a descriptor.
Strides strides_of(cudnnTensorDescriptor_t tensor, const char* name) {
  cudnnDataType_t type;
  int n, c, h, w;
  Strides s;
  CHECK(cudnnGetTensor4dDescriptor(tensor, &type, &n, &c, &h, &w, &s.n, &s.c, &s.h, &s.w));
  size_t bytes;
  CHECK(cudnnGetTensorSizeInBytes(tensor, &bytes));
  std::printf("%-5s sizes %d %d %d %d, strides %3d %3d %3d %3d, %zu bytes from first to last\n",
              name, n, c, h, w, s.n, s.c, s.h, s.w, bytes);
  return s;
}

/// Calls f(n, c, h, w) for every element of a tensor.
template <class F>
void for_each(int ns, int cs, int hs, int ws, F f) {
  for (int n = 0; n < ns; ++n) {
    for (int c = 0; c < cs; ++c) {
      for (int h = 0; h < hs; ++h) {
        for (int w = 0; w < ws; ++w) f(n, c, h, w);
      }
    }
  }
}

void teach() {
  cudnnHandle_t cudnn;
  CHECK(cudnnCreate(&cudnn));
  // region descriptors
  cudnnTensorDescriptor_t nchw, nhwc, crop, packed;
  for (auto* tensor : {&nchw, &nhwc, &crop, &packed}) CHECK(cudnnCreateTensorDescriptor(tensor));
  // Sizes always come in the order N C H W; the format says how they lie in memory.
  CHECK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
  CHECK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, kN, kC, kH, kW));
  const Strides a = strides_of(nchw, "nchw"), b = strides_of(nhwc, "nhwc");
  // end descriptors

  // region transform
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  const lesson::Array<float> in(x), out(x.size());
  const float one = 1, zero = 0;
  CHECK(cudnnTransformTensor(cudnn, &one, nchw, in.data(), &zero, nhwc, out.data()));
  std::vector<float> expected(x.size());
  for_each(kN, kC, kH, kW, [&](int n, int c, int h, int w) {
    expected[b.offset(n, c, h, w)] = x[a.offset(n, c, h, w)];
  });
  lesson::compare("nchw to nhwc", out.host(), expected);
  // end transform

  // region crop
  // Rows 2 and 3, columns 1 to 3: the strides stay those of the whole, the pointer moves.
  CHECK(cudnnSetTensor4dDescriptorEx(crop, CUDNN_DATA_FLOAT, kN, kC, 2, 3, a.n, a.c, a.h, a.w));
  CHECK(cudnnSetTensor4dDescriptor(packed, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, 2, 3));
  strides_of(crop, "crop");
  const lesson::Array<float> part(kN * kC * 2 * 3);
  const float* first = in.data() + a.offset(0, 0, 2, 1);
  CHECK(cudnnTransformTensor(cudnn, &one, crop, first, &zero, packed, part.data()));
  std::vector<float> cropped;
  for_each(kN, kC, 2, 3,
           [&](int n, int c, int h, int w) { cropped.push_back(x[a.offset(n, c, h + 2, w + 1)]); });
  lesson::compare("the crop", part.host(), cropped);
  // end crop

  // region silent
  // Memory in nchw, described as nhwc: no error, other values.
  CHECK(cudnnTransformTensor(cudnn, &one, nhwc, in.data(), &zero, nhwc, out.data()));
  const std::vector<float> mixed_up = out.host();
  size_t wrong = 0;
  for (size_t i = 0; i < x.size(); ++i) wrong += mixed_up[i] != expected[i];
  std::printf("a descriptor that does not fit the memory: no error, and %zu of %zu values wrong\n",
              wrong, x.size());
  lesson::expect("the wrong descriptor went unnoticed", wrong > 0);
  // end silent

  // region wrong
  SHOULD_FAIL(cudnnSetTensor4dDescriptor(packed, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, 0, 2, 3),
              CUDNN_STATUS_BAD_PARAM);
  SHOULD_FAIL(cudnnSetTensor4dDescriptorEx(packed, CUDNN_DATA_FLOAT, kN, kC, 2, 3, 18, 6, 3, 0),
              CUDNN_STATUS_BAD_PARAM);
  SHOULD_FAIL(cudnnTransformTensor(cudnn, &one, crop, first, &zero, nchw, out.data()),
              CUDNN_STATUS_BAD_PARAM);
  // end wrong

  // region time
  const int n = 64, c = 64, h = 56, w = 56;
  const lesson::Array<float> from(static_cast<size_t>(n) * c * h * w), to(from.size());
  CHECK(cudnnSetTensor4dDescriptor(nchw, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
  CHECK(cudnnSetTensor4dDescriptor(nhwc, CUDNN_TENSOR_NHWC, CUDNN_DATA_FLOAT, n, c, h, w));
  for (const cudnnTensorDescriptor_t target : {nchw, nhwc}) {
    const double us = lesson::microseconds([&] {
      CHECK(cudnnTransformTensor(cudnn, &one, nchw, from.data(), &zero, target, to.data()));
    });
    std::printf("%zu MB from nchw to %s: %.0f us, %.0f GB/s read and written\n",
                from.bytes() / 1000000, target == nchw ? "nchw" : "nhwc", us,
                2e-3 * static_cast<double>(from.bytes()) / us);
  }
  // end time
  for (auto* tensor : {nchw, nhwc, crop, packed}) CHECK(cudnnDestroyTensorDescriptor(tensor));
  CHECK(cudnnDestroy(cudnn));
}

int main() {
  return lesson::run(
      "Lesson 02: tensor descriptors",
      "Describes one piece of memory as NCHW, as NHWC and as a crop, and copies from "
      "each to each.",
      teach);
}
