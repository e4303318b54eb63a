// Lesson 20, exercise 2: a block in the middle of a matrix, multiplied where it lies.
#define main main_of_the_lesson
#include "column_major.cpp"
#undef main

void answer() {
  cublasHandle_t cublas;
  CHECK(cublasCreate(&cublas));
  // region answer
  // Rows 2 to 5 and columns 3 to 8 of a 9 x 12 matrix: a pointer to its first value, and the length
  // of a row of the whole.
  const Matrix whole(9, 12, 1), b(6, 5, 2);
  Matrix block(4, 6, 0);
  for (int i = 0; i < 4 * 6; ++i) block.values[i] = whole.values[(2 + i / 6) * 12 + 3 + i % 6];
  const lesson::Array<float> wholes(whole.values), bs(b.values), cs(4 * 5);
  CHECK(multiply(cublas, 4, 5, 6, wholes.data() + 2 * 12 + 3, 12, false, bs.data(), 5, false,
                 cs.data(), 5));
  lesson::compare("block times b", cs.host(), plain(block, false, b, false), 1e-5);
  // end answer
  CHECK(cublasDestroy(cublas));
}

int main() { return lesson::run("Lesson 20, answer 2", "A block of a matrix.", answer); }
