// Lesson 08, exercise 1: leaky relu, which cuDNN does not have.
#define main main_of_the_lesson
#include "activation.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor tensor;
  CHECK(cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 5, 7));
  const std::vector<float> x = lesson::random_values(kCount, 1);
  const lesson::Array<float> xs(x), ys(kCount);
  // region answer
  // max(x, slope * x), if the slope is from 0 to 1: both operands of one cudnnOpTensor are x.
  const lesson::OpTensorDescriptor largest;
  CHECK(cudnnSetOpTensorDescriptor(largest, CUDNN_OP_TENSOR_MAX, CUDNN_DATA_FLOAT,
                                   CUDNN_PROPAGATE_NAN));
  const float one = 1, slope_below = 0.125f, zero = 0;
  CHECK(cudnnOpTensor(cudnn, largest, &one, tensor, xs.data(), &slope_below, tensor, xs.data(),
                      &zero, tensor, ys.data()));
  std::vector<float> expected;
  for (const float value : x) expected.push_back(value > 0 ? value : slope_below * value);
  lesson::compare("leaky relu", ys.host(), expected);
  // end answer
}

int main() { return lesson::run("Lesson 08, answer 1", "Leaky relu by cudnnOpTensor.", answer); }
