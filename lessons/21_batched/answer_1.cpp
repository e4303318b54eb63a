// Lesson 21, exercise 1: the scores of attention, straight from rows that hold all heads.
#include <cublas_v2.h>

#include "../lesson.h"

void answer() {
  cublasHandle_t cublas;
  CHECK(cublasCreate(&cublas));
  const int length = 30, heads = 4, size = 8, row = heads * size;
  const auto q = lesson::random_values(length * row, 1), k = lesson::random_values(length * row, 2);
  const lesson::Array<float> qs(q), ks(k), scores(heads * length * length);
  const float one = 1, zero = 0;
  // region answer
  // score[h][i][j] = q[i][h] . k[j][h]. A head's matrix begins `size` further on, in rows of all heads.
  CHECK(cublasSgemmStridedBatched(cublas, CUBLAS_OP_T, CUBLAS_OP_N, length, length, size, &one,
                                  ks.data(), row, size, qs.data(), row, size, &zero, scores.data(),
                                  length, length * length, heads));
  // end answer
  std::vector<double> expected;
  for (int h = 0; h < heads; ++h) {
    for (int i = 0; i < length; ++i) {
      for (int j = 0; j < length; ++j) {
        double sum = 0;
        for (int t = 0; t < size; ++t) {
          sum += double(q[i * row + h * size + t]) * k[j * row + h * size + t];
        }
        expected.push_back(sum);
      }
    }
  }
  lesson::compare("scores of all heads", scores.host(), expected, 1e-5);
  CHECK(cublasDestroy(cublas));
}

int main() { return lesson::run("Lesson 21, answer 1", "Attention scores in one call.", answer); }
