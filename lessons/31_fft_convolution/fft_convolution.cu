// Lesson 31: a convolution by cuFFT: transform, multiply, transform back; against a direct kernel.
#include <cufft.h>

#include "../lesson.h"

// region direct
/// y[p][q] = sum of w[r][s] * x[p + r][q + s], where the filter lies within the image.
__global__ void direct_kernel(const float* x, const float* w, float* y, int size, int kernel) {
  const int q = blockIdx.x * blockDim.x + threadIdx.x, p = blockIdx.y * blockDim.y + threadIdx.y;
  const int out = size - kernel + 1;
  if (p >= out || q >= out) return;
  float sum = 0;
  for (int r = 0; r < kernel; ++r) {
    for (int s = 0; s < kernel; ++s) sum += w[r * kernel + s] * x[(p + r) * size + q + s];
  }
  y[p * out + q] = sum;
}
// end direct

// region multiply
/// x = x * conjugate(w) * scale: a correlation; without the conjugate it would flip the filter.
__global__ void multiply_kernel(cufftComplex* x, const cufftComplex* w, int count, float scale) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const cufftComplex a = x[i], b = w[i];
  x[i] = {scale * (a.x * b.x + a.y * b.y), scale * (a.y * b.x - a.x * b.y)};
}
// end multiply

std::vector<double> plain(const std::vector<float>& x, const std::vector<float>& w, int size,
                          int kernel) {
  const int out = size - kernel + 1;
  std::vector<double> y;
  for (int i = 0; i < out * out; ++i) {
    double sum = 0;
    for (int j = 0; j < kernel * kernel; ++j) {
      sum += double(w[j]) * x[(i / out + j / kernel) * size + i % out + j % kernel];
    }
    y.push_back(sum);
  }
  return y;
}

/// Rows of `width`, in the corner of a square of zeros.
std::vector<float> padded(const std::vector<float>& values, int width, int size) {
  std::vector<float> all(static_cast<size_t>(size) * size);
  for (size_t i = 0; i < values.size(); ++i) all[i / width * size + i % width] = values[i];
  return all;
}

/// Both ways, compared and timed.
void check(int size, int kernel) {
  const auto x = lesson::random_values(static_cast<size_t>(size) * size, 1);
  const auto w = lesson::random_values(static_cast<size_t>(kernel) * kernel, 2);
  const std::vector<double> expected = plain(x, w, size, kernel);
  const int out = size - kernel + 1;
  std::printf("image %dx%d, filter %dx%d\n", size, size, kernel, kernel);

  const lesson::Array<float> xs(x), ws(w), ys(expected.size());
  const dim3 block(32, 8), grid((out + 31) / 32, (out + 7) / 8);
  const double direct_us = lesson::microseconds([&] {
    direct_kernel<<<grid, block>>>(xs.data(), ws.data(), ys.data(), size, kernel);
    CHECK(cudaGetLastError());
  });
  const double allowed = 1e-6 * kernel * kernel + 1e-5;
  lesson::compare(" direct", ys.host(), expected, allowed);

  // region plan
  // Real to complex: size rows of size / 2 + 1 values; the rest follows by symmetry.
  const int count = size * (size / 2 + 1);
  cufftHandle forward, backward;
  CHECK(cufftPlan2d(&forward, size, size, CUFFT_R2C));
  CHECK(cufftPlan2d(&backward, size, size, CUFFT_C2R));
  const lesson::Array<float> filter(padded(w, kernel, size)),
      result(static_cast<size_t>(size) * size);
  const lesson::Array<cufftComplex> fx(count), fw(count);
  // end plan
  // region transform
  CHECK(cufftExecR2C(forward, filter.data(), fw.data()));  // once for all images
  const auto convolve = [&](float scale) {
    CHECK(cufftExecR2C(forward, xs.data(), fx.data()));
    multiply_kernel<<<(count + 255) / 256, 256>>>(fx.data(), fw.data(), count, scale);
    CHECK(cudaGetLastError());
    CHECK(cufftExecC2R(backward, fx.data(), result.data()));  // overwrites fx
  };
  const float scale = 1.0f / (static_cast<float>(size) * size);  // cuFFT does not divide
  const double fft_us = lesson::microseconds([&] { convolve(scale); });
  const std::vector<float> whole = result.host();
  std::vector<float> y;
  for (int i = 0; i < out * out; ++i) y.push_back(whole[i / out * size + i % out]);
  lesson::compare(" by FFT", y, expected, 10 * allowed);
  std::printf(" direct %.1f us, by FFT %.1f us\n", direct_us, fft_us);
  // end transform

  // region scale
  convolve(1);  // without the factor: no error, and values size * size times too large
  const double ratio = result.host()[0] / expected[0];
  std::printf(" without the factor y is %.0f times as large\n", ratio);
  lesson::expect(" the factor is 1 / (rows * columns)", std::fabs(ratio * scale - 1) < 0.01);
  // end scale
  CHECK(cufftDestroy(backward));
  CHECK(cufftDestroy(forward));
}

void teach() {
  for (const int kernel : {3, 15, 41}) check(256, kernel);
  // region wrong
  cufftHandle plan;
  SHOULD_FAIL(cufftPlan2d(&plan, 0, 256, CUFFT_R2C), CUFFT_INVALID_SIZE);
  // end wrong
}

int main() {
  return lesson::run(
      "Lesson 31: a convolution by FFT",
      "Convolves an image with growing filters, by a direct kernel and by cuFFT, and "
      "times both.",
      teach);
}
