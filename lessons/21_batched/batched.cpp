// Lesson 21: many small products in one call: by a list of pointers, and by a stride.
#include <cublas_v2.h>

#include "../lesson.h"

// region constants
constexpr int kCount = 500, kM = 12, kN = 20, kK = 16;  // c = a b, row-major, kCount times
constexpr int kA = kM * kK, kB = kK * kN, kC = kM * kN;
constexpr float kOne = 1, kZero = 0;
// end constants

std::vector<double> plain(const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<double> c;
  for (int i = 0; i < kCount * kC; ++i) {
    const int batch = i / kC, row = i / kN % kM, column = i % kN;
    double sum = 0;
    for (int k = 0; k < kK; ++k) {
      sum += double(a[batch * kA + row * kK + k]) * b[batch * kB + k * kN + column];
    }
    c.push_back(sum);
  }
  return c;
}

void teach() {
  cublasHandle_t cublas;
  CHECK(cublasCreate(&cublas));
  // region memory
  const auto a = lesson::random_values(kCount * kA, 1), b = lesson::random_values(kCount * kB, 2);
  const std::vector<double> expected = plain(a, b);
  const lesson::Array<float> as(a), bs(b);
  // end memory

  // region loop
  const lesson::Array<float> looped(kCount * kC);
  const auto loop = [&] {
    for (int i = 0; i < kCount; ++i) {
      CHECK(cublasSgemm(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kN, kM, kK, &kOne, bs.data() + i * kB, kN,
                        as.data() + i * kA, kK, &kZero, looped.data() + i * kC, kN));
    }
  };
  const double loop_us = lesson::microseconds(loop, nullptr, 2);
  lesson::compare("a loop of calls", looped.host(), expected, 1e-5);
  // end loop

  // region pointers
  const lesson::Array<float> by_pointer(kCount * kC);
  std::vector<const float*> a_list, b_list;
  std::vector<float*> c_list;
  for (int i = 0; i < kCount; ++i) {
    a_list.push_back(as.data() + i * kA);
    b_list.push_back(bs.data() + i * kB);
    c_list.push_back(by_pointer.data() + i * kC);
  }
  const lesson::Array<const float*> a_pointers(a_list), b_pointers(b_list);  // on the GPU
  const lesson::Array<float*> c_pointers(c_list);
  const double pointer_us = lesson::microseconds([&] {
    CHECK(cublasSgemmBatched(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kN, kM, kK, &kOne, b_pointers.data(),
                             kN, a_pointers.data(), kK, &kZero, c_pointers.data(), kN, kCount));
  });
  lesson::compare("a list of pointers", by_pointer.host(), expected, 1e-5);
  // end pointers

  // region strided
  const lesson::Array<float> strided(kCount * kC);
  const double strided_us = lesson::microseconds([&] {
    CHECK(cublasSgemmStridedBatched(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kN, kM, kK, &kOne, bs.data(),
                                    kN, kB, as.data(), kK, kA, &kZero, strided.data(), kN, kC,
                                    kCount));
  });
  lesson::compare("a stride", strided.host(), expected, 1e-5);
  std::printf("%d products of %dx%dx%d: loop %.0f us, pointers %.1f us, stride %.1f us\n", kCount,
              kM, kN, kK, loop_us, pointer_us, strided_us);
  // end strided

  // region shared
  // A stride of 0: all products share one a.
  CHECK(cublasSgemmStridedBatched(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kN, kM, kK, &kOne, bs.data(),
                                  kN, kB, as.data(), kK, 0, &kZero, strided.data(), kN, kC,
                                  kCount));
  std::vector<float> repeated;
  for (int i = 0; i < kCount; ++i) repeated.insert(repeated.end(), a.begin(), a.begin() + kA);
  lesson::compare("one a for all", strided.host(), plain(repeated, b), 1e-5);
  // end shared

  // region wrong
  SHOULD_FAIL(
      cublasSgemmStridedBatched(cublas, CUBLAS_OP_N, CUBLAS_OP_N, kN, kM, kK, &kOne, bs.data(), kN,
                                kB, as.data(), kK, kA, &kZero, strided.data(), kM, kC, kCount),
      CUBLAS_STATUS_INVALID_VALUE);
  // end wrong
  CHECK(cublasDestroy(cublas));
}

int main() {
  return lesson::run("Lesson 21: batched products",
                     "Computes 500 small products by 500 calls, by a list of pointers and by a "
                     "stride, and times all three.",
                     teach);
}
