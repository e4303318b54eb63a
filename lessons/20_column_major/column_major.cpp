// Lesson 20: row-major products by a column-major library, without copies.
#include <cublas_v2.h>

#include "../lesson.h"

/// rows x columns values, row-major: value (i, j) lies at i * columns + j.
struct Matrix {
  int rows, columns;
  std::vector<float> values;
  Matrix(int r, int c, uint32_t seed)
      : rows(r), columns(c), values(lesson::random_values(static_cast<size_t>(r) * c, seed)) {}
};

// region plain
/// c = op(a) * op(b), where op transposes if asked. All row-major.
std::vector<double> plain(const Matrix& a, bool turn_a, const Matrix& b, bool turn_b) {
  const int m = turn_a ? a.columns : a.rows, k = turn_a ? a.rows : a.columns;
  const int n = turn_b ? b.rows : b.columns;
  std::vector<double> c;
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int t = 0; t < k; ++t) {
        sum += double(a.values[turn_a ? t * a.columns + i : i * a.columns + t]) *
               b.values[turn_b ? j * b.columns + t : t * b.columns + j];
      }
      c.push_back(sum);
    }
  }
  return c;
}
// end plain

// region product
/// The same on the GPU. cuBLAS takes row-major c (m x n) for column-major c^T (n x m), and likewise a
/// and b, and c^T = op(b)^T * op(a)^T: so b is its first operand, and nothing is transposed.
cublasStatus_t multiply(cublasHandle_t cublas, int m, int n, int k, const float* a, int columns_a,
                        bool turn_a, const float* b, int columns_b, bool turn_b, float* c,
                        int columns_c) {
  const float one = 1, zero = 0;
  return cublasSgemm(cublas, turn_b ? CUBLAS_OP_T : CUBLAS_OP_N, turn_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                     n, m, k, &one, b, columns_b, a, columns_a, &zero, c, columns_c);
}
// end product

void check(cublasHandle_t cublas, const char* name, const Matrix& a, bool turn_a, const Matrix& b,
           bool turn_b) {
  const int m = turn_a ? a.columns : a.rows, k = turn_a ? a.rows : a.columns;
  const int n = turn_b ? b.rows : b.columns;
  const lesson::Array<float> as(a.values), bs(b.values), cs(static_cast<size_t>(m) * n);
  CHECK(multiply(cublas, m, n, k, as.data(), a.columns, turn_a, bs.data(), b.columns, turn_b,
                 cs.data(), n));
  lesson::compare(name, cs.host(), plain(a, turn_a, b, turn_b), 1e-5);
}

void teach() {
  cublasHandle_t cublas;
  CHECK(cublasCreate(&cublas));
  // region cases
  check(cublas, "a b", Matrix(5, 7, 1), false, Matrix(7, 3, 2), false);
  check(cublas, "a^T b", Matrix(7, 5, 1), true, Matrix(7, 3, 2), false);
  check(cublas, "a b^T", Matrix(5, 7, 1), false, Matrix(3, 7, 2), true);
  check(cublas, "a^T b^T", Matrix(7, 5, 1), true, Matrix(3, 7, 2), true);
  // end cases

  // region math
  const int size = 512;
  const Matrix a(size, size, 3), b(size, size, 4);
  const lesson::Array<float> as(a.values), bs(b.values), cs(a.values.size());
  const std::vector<double> expected = plain(a, false, b, false);
  const struct {
    const char* name;
    cublasMath_t math;
    double allowed;
  } maths[] = {
    {"CUBLAS_PEDANTIC_MATH", CUBLAS_PEDANTIC_MATH, 1e-3},
    {"CUBLAS_DEFAULT_MATH", CUBLAS_DEFAULT_MATH, 1e-3},
#if CUBLAS_VER_MAJOR >= 13
    {"CUBLAS_FP32_EMULATED_BF16X9_MATH", CUBLAS_FP32_EMULATED_BF16X9_MATH, 1e-3},
#endif
    {"CUBLAS_TF32_TENSOR_OP_MATH", CUBLAS_TF32_TENSOR_OP_MATH, 0.1}
  };
  for (const auto& [name, math, allowed] : maths) {
    CHECK(cublasSetMathMode(cublas, math));
    const double us = lesson::microseconds([&] {
      CHECK(multiply(cublas, size, size, size, as.data(), size, false, bs.data(), size, false,
                     cs.data(), size));
    });
    const std::vector<float> c = cs.host();
    std::printf("%-32s %7.1f us, %6.1f TFLOP/s, largest error %.1e\n", name, us,
                2e-6 * size * size * size / us, lesson::largest_difference(c, expected));
    lesson::compare(name, c, expected, allowed);
  }
  // end math

  // region wrong
  // The leading dimension is the row's length in memory, here of b: 512, not 256.
  SHOULD_FAIL(multiply(cublas, size, size, size, as.data(), size, false, bs.data(), size / 2, false,
                       cs.data(), size),
              CUBLAS_STATUS_INVALID_VALUE);
  // end wrong
  CHECK(cublasDestroy(cublas));
}

int main() {
  return lesson::run("Lesson 20: column-major without tears",
                     "Multiplies row-major matrices in all four transpositions, and times the "
                     "math modes.",
                     teach);
}
