// What a comparison with the reference adds up over the elements, on the CPU or on the GPU where
// the output lies; and the decision whether they agree, which is the same for both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/host_device.h"
#include "device/context.h"
#include "measure/check/agreement.h"

namespace duet {

/// Of a reference's output alone.
struct ReferenceSums {
  double square = 0;       // of the finite values
  double magnitude = 0;    // the sum of their absolute values
  double size_square = 0;  // of their sizes; without sizes the same as `square`
  double finite = 0;       // values

  double rms() const { return std::sqrt(square / std::max(finite, 1.0)); }
  double size_rms() const { return std::sqrt(size_square / std::max(finite, 1.0)); }
};
/// `sizes` may be nullptr (NamedValues::sizes).
ReferenceSums reference_sums(const double* values, const double* sizes, int64_t count);

/// The most that an element may differ from the reference, by its size there.
DUET_HOST_DEVICE inline double allowed_error(double expected, double size, const Limit& limit) {
  const double magnitude = std::abs(expected);
  if (limit.kind == Limit::Kind::kElementwise) {
    return limit.atol + (limit.rtol + limit.storage) * magnitude;
  }
  return limit.kind == Limit::Kind::kRms
             ? kWorstElement * limit.rms * size + limit.storage * magnitude
             : 0;
}
/// The most that the RMS of the errors of all elements may be; infinite where the limit sets none.
double allowed_rms(const ReferenceSums& reference, const Limit& limit);

/// Of an output beside the reference's.
struct ComparisonSums {
  double error_square = 0, found_square = 0, product = 0;
  double shortfall = 0;  // of absolute values: of finite errors, those towards zero less the others
  double max_error = 0;
  double worst_share = -1;         // of what the element's error may be
  int64_t worst = -1;              // index of the first element with that share
  double expected = 0, found = 0;  // there

  DUET_HOST_DEVICE void add_element(int64_t i, double e, double f, double size,
                                    const Limit& limit) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    double error = std::abs(f - e), share;
    if ((std::isnan(e) && std::isnan(f)) || e == f) {
      error = share = 0;
    } else if (!std::isfinite(error)) {
      error = share = kInfinity;
    } else {
      const double allowed = allowed_error(e, size, limit);
      share = allowed > 0 ? error / allowed : kInfinity;
    }
    error_square += error * error;
    if (std::isfinite(e)) {
      found_square += f * f;
      product += e * f;
      if (limit.storage > 0 && std::isfinite(f)) shortfall += e < 0 ? f - e : e - f;
    }
    if (error > max_error) max_error = error;
    if (share > worst_share) {
      worst_share = share;
      worst = i;
      expected = e;
      found = f;
    }
  }

  DUET_HOST_DEVICE void add(const ComparisonSums& other) {
    error_square += other.error_square;
    found_square += other.found_square;
    product += other.product;
    shortfall += other.shortfall;
    if (other.max_error > max_error) max_error = other.max_error;
    if (other.worst_share > worst_share ||
        (other.worst_share == worst_share && other.worst < worst)) {
      worst_share = other.worst_share;
      worst = other.worst;
      expected = other.expected;
      found = other.found;
    }
  }
};

/// A reference's output on the device of what is held to it.
struct ExpectedValues {
  const double* values = nullptr;
  const double* sizes = nullptr;  // nullptr: all are the RMS
  ReferenceSums sums;
};

/// Elements are added up in parts of so many, and then the parts in order: the same bits for any
/// number of threads.
inline constexpr int64_t kComparedInPart = 1 << 15;

/// Waits for the work queued. REQUIRES: as many values of `expected` as of `found`, both in memory
/// of the context's device; any type but float16.
ComparisonSums comparison_sums(const ExpectedValues& expected, const Tensor& found,
                               const Limit& limit, Context& context);
/// The same on the CPU, and on the GPU (comparison_sums.cu; comparison_sums_none.cpp in a build
/// without CUDA).
ComparisonSums comparison_sums_on_cpu(const ExpectedValues& expected, const Tensor& found,
                                      const Limit& limit);
ComparisonSums comparison_sums_on_gpu(const ExpectedValues& expected, const Tensor& found,
                                      const Limit& limit, Context& context);

Agreement agreement_of(const ComparisonSums& sums, const ReferenceSums& reference,
                       const Limit& limit);

}  // namespace duet
