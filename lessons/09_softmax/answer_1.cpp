// Lesson 09, exercise 1: softmax over the rows of a matrix.
#define main main_of_the_lesson
#include "softmax.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const lesson::TensorDescriptor matrix;
  // region answer
  // 6 rows of 10: images of one pixel with 10 channels. INSTANCE and CHANNEL are the same then.
  const int rows = 6, columns = 10;
  CHECK(
      cudnnSetTensor4dDescriptor(matrix, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, rows, columns, 1, 1));
  const std::vector<float> x = lesson::random_values(rows * columns, 1);
  std::vector<double> expected;
  for (int row = 0; row < rows; ++row) {
    double sum = 0;
    for (int i = 0; i < columns; ++i) sum += std::exp(x[row * columns + i]);
    for (int i = 0; i < columns; ++i) expected.push_back(std::exp(x[row * columns + i]) / sum);
  }
  const lesson::Array<float> xs(x), ys(x.size());
  const float one = 1, zero = 0;
  for (const auto mode : {CUDNN_SOFTMAX_MODE_INSTANCE, CUDNN_SOFTMAX_MODE_CHANNEL}) {
    CHECK(cudnnSoftmaxForward(cudnn, CUDNN_SOFTMAX_ACCURATE, mode, &one, matrix, xs.data(), &zero,
                              matrix, ys.data()));
    lesson::compare("rows of a matrix", ys.host(), expected, 1e-6);
  }
  // end answer
}

int main() { return lesson::run("Lesson 09, answer 1", "Softmax over rows.", answer); }
