// Lesson 03, exercise 2: a linear layer as a convolution.
#define main main_of_the_lesson
#include "convolution.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  // region answer
  // 5 rows of 20 features, 7 outputs: images of one pixel, or one filter as large as the image.
  const auto x = lesson::random_values(5 * 20, 1), w = lesson::random_values(7 * 20, 2);
  std::vector<double> expected;
  for (int i = 0; i < 5 * 7; ++i) {
    double sum = 0;
    for (int j = 0; j < 20; ++j) sum += double(x[i / 7 * 20 + j]) * w[i % 7 * 20 + j];
    expected.push_back(sum);
  }
  const Convolution pixel = {
      .name = "20 channels of 1x1", .n = 5, .c = 20, .h = 1, .w = 1, .k = 7, .r = 1, .s = 1};
  const Convolution whole = {
      .name = "1 channel of 4x5", .n = 5, .c = 1, .h = 4, .w = 5, .k = 7, .r = 4, .s = 5};
  for (const Convolution& v : {pixel, whole}) {
    lesson::compare(v.name, by_cudnn(cudnn, v, x, w, CUDNN_FMA_MATH), expected, 1e-4);
  }
  // end answer
}

int main() {
  return lesson::run("Lesson 03, answer 2", "A product of matrices by a convolution.", answer);
}
