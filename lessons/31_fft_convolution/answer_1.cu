// Lesson 31, exercise 1: rows of a batch, each transformed and back, in one plan.
#include <cufft.h>

#include "../lesson.h"

void answer() {
  // region answer
  // 100 rows of 60, in memory with 64 values a row: cufftPlanMany knows steps and distances.
  const int rows = 100, length = 60, pitch = 64, half = length / 2 + 1;
  int n[] = {length}, in[] = {pitch}, out[] = {half};
  cufftHandle forward, backward;
  CHECK(cufftPlanMany(&forward, 1, n, in, 1, pitch, out, 1, half, CUFFT_R2C, rows));
  CHECK(cufftPlanMany(&backward, 1, n, out, 1, half, in, 1, pitch, CUFFT_C2R, rows));
  // end answer
  const auto x = lesson::random_values(rows * pitch, 1);
  const lesson::Array<float> xs(x), back(std::vector<float>(rows * pitch, 0.0f));
  const lesson::Array<cufftComplex> spectrum(rows * half);
  CHECK(cufftExecR2C(forward, xs.data(), spectrum.data()));
  std::vector<float> got;
  std::vector<double> expected;
  const std::vector<cufftComplex> values = spectrum.host();
  const double step = 2 * std::acos(-1.0) / length;
  for (int i = 0; i < rows * half; ++i) {
    double real = 0, imaginary = 0;
    for (int t = 0; t < length; ++t) {
      real += x[i / half * pitch + t] * std::cos(step * (i % half) * t);
      imaginary -= x[i / half * pitch + t] * std::sin(step * (i % half) * t);
    }
    got.insert(got.end(), {values[i].x, values[i].y});
    expected.insert(expected.end(), {real, imaginary});
  }
  lesson::compare("spectra", got, expected, 1e-4);
  CHECK(cufftExecC2R(backward, spectrum.data(), back.data()));
  std::vector<double> same(rows * pitch);
  for (int i = 0; i < rows * pitch; ++i) same[i] = i % pitch < length ? length * double(x[i]) : 0;
  lesson::compare("and back, times 60", back.host(), same, 1e-3);
  CHECK(cufftDestroy(backward));
  CHECK(cufftDestroy(forward));
}

int main() {
  return lesson::run("Lesson 31, answer 1", "A batch of transforms in one plan.", answer);
}
