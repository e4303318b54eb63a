// Normally distributed numbers of random words, with the same bits on the CPU and on a GPU: libm's
// logarithm and CUDA's are not, so these are series, of additions, products, quotients and square
// roots alone, each of which IEEE 754 rounds in one way. A multiply-add rounds once instead of twice:
// files that include this are compiled without (-ffp-contract=off, --fmad=false; CMakeLists.txt).
// Functions are static, that each file has those that its own options make.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <numbers>

#include "core/host_device.h"

namespace duet {

/// In (0, 1).
static DUET_HOST_DEVICE inline double unit_double(uint32_t word) { return (word + 0.5) * 0x1p-32; }

/// The natural logarithm, within 4 units of the last digit. REQUIRES: 2^-1000 < x < 2^1000.
static DUET_HOST_DEVICE inline double log_by_series(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1023} << 52;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof mantissa);
  if (mantissa > std::numbers::sqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  // log(m) = 2 atanh(s) = 2 (s + s^3 / 3 + s^5 / 5 + ...), |s| < 0.172
  const double s = (mantissa - 1.0) / (mantissa + 1.0), square = s * s;
  double sum = 0.0;
  for (int k = 10; k >= 0; --k) sum = sum * square + 1.0 / (2 * k + 1);
  return exponent * std::numbers::ln2 + 2.0 * s * sum;
}

/// Cosine and sine of `turns` times 2 pi, within 2^-51. REQUIRES: 0 <= turns <= 1.
static DUET_HOST_DEVICE inline void cos_sin_by_series(double turns, double* cosine, double* sine) {
  const int quarter = static_cast<int>(4.0 * turns + 0.5);
  const double angle = 2.0 * std::numbers::pi * (turns - 0.25 * quarter);  // up to pi / 4
  const double square = angle * angle;
  double c = 1.0,
         s = 1.0;  // 1 - x^2 / (1 * 2) * (1 - x^2 / (3 * 4) * ...), and x * (1 - x^2 / (2 * 3) ...)
  for (int k = 8; k >= 1; --k) {
    c = 1.0 - c * square * (1.0 / ((2 * k - 1) * (2 * k)));
    s = 1.0 - s * square * (1.0 / ((2 * k) * (2 * k + 1)));
  }
  s *= angle;
  const bool turned = quarter % 2 != 0, negative = quarter == 2 || quarter == 3;
  *cosine = turned ? (negative ? s : -s) : (negative ? -c : c);
  *sine = turned ? (negative ? -c : c) : (negative ? -s : s);
}

/// Two normally distributed numbers of two words. G. Box, M. Muller: A Note on the Generation of
/// Random Normal Deviates, 1958.
static DUET_HOST_DEVICE inline void normal_pair(uint32_t a, uint32_t b, double* first,
                                                double* second) {
  const double radius = std::sqrt(-2.0 * log_by_series(unit_double(a)));
  double cosine, sine;
  cos_sin_by_series(unit_double(b), &cosine, &sine);
  *first = radius * cosine;
  *second = radius * sine;
}

}  // namespace duet
