// Lesson 20, exercise 1: forward and both gradients of a linear layer, all row-major.
#define main main_of_the_lesson
#include "column_major.cpp"
#undef main

void answer() {
  cublasHandle_t cublas;
  CHECK(cublasCreate(&cublas));
  // region answer
  // x: 6 rows of 10 features; w: 4 outputs x 10; y = x w^T; dx = dy w; dw = dy^T x.
  const Matrix x(6, 10, 1), w(4, 10, 2), dy(6, 4, 3);
  check(cublas, "y", x, false, w, true);
  check(cublas, "dx", dy, false, w, false);
  check(cublas, "dw", dy, true, x, false);
  // end answer
  CHECK(cublasDestroy(cublas));
}

int main() { return lesson::run("Lesson 20, answer 1", "The products of a linear layer.", answer); }
