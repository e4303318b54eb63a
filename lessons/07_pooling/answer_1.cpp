// Lesson 07, exercise 1: global average pooling.
#define main main_of_the_lesson
#include "pooling.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  const lesson::Array<float> xs(x), ys(kN * kC);
  const float one = 1, zero = 0;
  // region answer
  // A window as large as the image; y has one pixel.
  CHECK(cudnnSetPooling2dDescriptor(d.pooling, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
                                    CUDNN_PROPAGATE_NAN, kH, kW, 0, 0, 1, 1));
  CHECK(cudnnSetTensor4dDescriptor(d.y, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, 1, 1));
  CHECK(cudnnPoolingForward(cudnn, d.pooling, &one, d.x, xs.data(), &zero, d.y, ys.data()));
  std::vector<double> expected(kN * kC);
  for (size_t i = 0; i < x.size(); ++i) expected[i / (kH * kW)] += double(x[i]) / (kH * kW);
  lesson::compare("averages of planes", ys.host(), expected, 1e-6);
  // end answer
}

int main() { return lesson::run("Lesson 07, answer 1", "Global average pooling.", answer); }
