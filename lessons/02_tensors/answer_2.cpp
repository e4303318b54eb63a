// Lesson 02, exercise 2: rows and columns exchanged, by strides alone.
#define main main_of_the_lesson
#include "tensors.cpp"
#undef main

void answer() {
  cudnnHandle_t cudnn;
  CHECK(cudnnCreate(&cudnn));
  cudnnTensorDescriptor_t exchanged, packed;
  CHECK(cudnnCreateTensorDescriptor(&exchanged));
  CHECK(cudnnCreateTensorDescriptor(&packed));
  const std::vector<float> x = lesson::random_values(kN * kC * kH * kW, 1);
  const lesson::Array<float> in(x), out(x.size());
  const float one = 1, zero = 0;
  // region answer
  // kW rows of kH: a step down is a step to the right in memory, and the other way round.
  CHECK(cudnnSetTensor4dDescriptorEx(exchanged, CUDNN_DATA_FLOAT, kN, kC, kW, kH, kC * kH * kW,
                                     kH * kW, 1, kW));
  CHECK(cudnnSetTensor4dDescriptor(packed, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, kN, kC, kW, kH));
  CHECK(cudnnTransformTensor(cudnn, &one, exchanged, in.data(), &zero, packed, out.data()));
  // end answer
  std::vector<float> expected;
  for_each(kN, kC, kW, kH, [&](int n, int c, int row, int column) {
    expected.push_back(x[((n * kC + c) * kH + column) * kW + row]);
  });
  lesson::compare("rows and columns exchanged", out.host(), expected);
  CHECK(cudnnDestroyTensorDescriptor(packed));
  CHECK(cudnnDestroyTensorDescriptor(exchanged));
  CHECK(cudnnDestroy(cudnn));
}

int main() {
  return lesson::run("Lesson 02, answer 2", "Transposes images with cudnnTransformTensor.", answer);
}
