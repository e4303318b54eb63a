// A spot check of a convolution's results: a few outputs, computed in double on the host, from
// inputs that need not be read back. It finds what is less exact than sums in fp32 are: TF32, or
// Winograd's transform with large tiles.
#pragma once

#include <vector>

#include "layers/conv2d/conv2d.h"

namespace duet {

/// Random numbers within +-0.5 for a tensor of any size: element i is pattern()[i % its size]. All
/// 24 bits of a float are used, so that rounding to fewer shows (or 8, rounded to `dtype`); none
/// are zeros, on which a GPU runs up to 15% faster, because fewer wires toggle and the clock stays
/// higher.
class KnownValues {
 public:
  explicit KnownValues(uint32_t seed, DType dtype = DType::kFloat32);

  float operator[](int64_t i) const { return pattern_[i % kPeriod]; }
  const std::vector<float>& pattern() const { return pattern_; }

 private:
  static constexpr int64_t kPeriod = 65521;  // a prime: never lines up with rows or channels
  std::vector<float> pattern_;
};

/// The values of all tensors of a convolution that are stored in `dtype`, parameters too, in memory
/// order. Where y is an input, it is dy.
struct Conv2dValues {
  explicit Conv2dValues(DType dtype = DType::kFloat32)
      : x(1, dtype), w(2, dtype), b(3, dtype), y(4, dtype) {}

  KnownValues x, w, b, y;
};

/// Outputs of one pass at positions spread over the tensor (y, dx or dw; not db).
class Conv2dSamples {
 public:
  Conv2dSamples(const Conv2dProblem& problem, Pass pass, const Conv2dValues& values);

  /// Where the samples are: offsets into the output's memory, in elements.
  const std::vector<int64_t>& offsets() const { return offsets_; }
  /// What is right there.
  const std::vector<double>& expected() const { return expected_; }
  /// RMS of the error of `found` (one value an offset), beyond what storing the value may cost, by
  /// the RMS of the sums' sizes (layers/rounding.h).
  double relative_error(const std::vector<float>& found) const;
  /// What relative_error may be in problem.math: rounding_limit(). dw in bf16 has fp32's: its
  /// operands are stored in bfloat16 already.
  double limit() const { return limit_; }

 private:
  std::vector<int64_t> offsets_;
  std::vector<double> expected_;
  double size_ = 0.0;
  double limit_ = 0.0;
  double storage_ = 0.0;  // of a value, as a share of it
};

}  // namespace duet
