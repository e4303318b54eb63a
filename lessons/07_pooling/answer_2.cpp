// Lesson 07, exercise 2: who gets the gradient where all values are equal, as behind a relu.
#define main main_of_the_lesson
#include "pooling.cpp"
#undef main

void answer() {
  const lesson::Handle cudnn;
  const Descriptors d;
  const std::vector<float> x(kN * kC * kH * kW, 0), dy(kN * kC * kP * kQ, 1);
  const lesson::Array<float> xs(x), dys(dy), ys(dy.size()), dxs(x.size());
  const float one = 1, zero = 0;
  // region answer
  d.set(CUDNN_POOLING_MAX_DETERMINISTIC);
  CHECK(cudnnPoolingForward(cudnn, d.pooling, &one, d.x, xs.data(), &zero, d.y, ys.data()));
  CHECK(cudnnPoolingBackward(cudnn, d.pooling, &one, d.y, ys.data(), d.y, dys.data(), d.x,
                             xs.data(), &zero, d.x, dxs.data()));
  std::vector<double> expected(x.size());
  for (const std::vector<int>& window : windows()) expected[window[0]] += 1;  // the first, alone
  lesson::compare("dx of equal values", dxs.host(), expected);
  // end answer
}

int main() { return lesson::run("Lesson 07, answer 2", "The gradient of equal values.", answer); }
