#include "measure/check/comparison_sums.h"

#include <vector>

#include "core/parallel.h"
#include "core/storage.h"

namespace duet {
namespace {

/// Calls add(part, i) for every element i of every part, and returns the parts.
template <class Sums, class Add>
std::vector<Sums> parts_of(int64_t count, int64_t operations_each, const Add& add) {
  std::vector<Sums> parts(static_cast<size_t>((count + kComparedInPart - 1) / kComparedInPart));
  parallel_for(static_cast<int64_t>(parts.size()), count * operations_each, [&](int64_t k) {
    Sums part;
    const int64_t last = std::min(count, (k + 1) * kComparedInPart);
    for (int64_t i = k * kComparedInPart; i < last; ++i) add(part, i);
    parts[k] = part;
  });
  return parts;
}

}  // namespace

ReferenceSums reference_sums(const double* values, const double* sizes, int64_t count) {
  ReferenceSums all;
  for (const ReferenceSums& part :
       parts_of<ReferenceSums>(count, 4, [&](ReferenceSums&sums, int64_t i) {
         if (!std::isfinite(values[i])) return;
         sums.square += values[i] * values[i];
         sums.magnitude += std::abs(values[i]);
         if (sizes) sums.size_square += sizes[i] * sizes[i];
         ++sums.finite;
       })) {
    all.square += part.square;
    all.magnitude += part.magnitude;
    all.size_square += part.size_square;
    all.finite += part.finite;
  }
  if (!sizes) all.size_square = all.square;
  return all;
}

ComparisonSums comparison_sums(const ExpectedValues& expected, const Tensor& found,
                               const Limit& limit, Context& context) {
  return context.device() == Device::kGpu ? comparison_sums_on_gpu(expected, found, limit, context)
                                          : comparison_sums_on_cpu(expected, found, limit);
}

ComparisonSums comparison_sums_on_cpu(const ExpectedValues& expected, const Tensor& found,
                                      const Limit& limit) {
  constexpr int64_t kOperations = 20;
  const double rms = expected.sums.size_rms();
  ComparisonSums all;
  visit_values(found.desc.dtype, [&](auto zero) {
    const auto* values = found.data<decltype(zero)>();
    for (const ComparisonSums& part : parts_of<ComparisonSums>(
             found.elements(), kOperations, [&](ComparisonSums&sums, int64_t i) {
               sums.add_element(i, expected.values[i], static_cast<double>(values[i]),
                                expected.sizes ? expected.sizes[i] : rms, limit);
             })) {
      all.add(part);
    }
  });
  return all;
}

double allowed_rms(const ReferenceSums& reference, const Limit& limit) {
  // Without it atol would pass zeros for outputs that are all small.
  constexpr double kShareOfReference = 1e-3;
  const double rms = reference.rms();
  switch (limit.kind) {
    case Limit::Kind::kExact:
      return 0;
    case Limit::Kind::kRms:
      return limit.rms * reference.size_rms() + limit.storage * rms;
    case Limit::Kind::kElementwise:
      return rms > 0 ? (kShareOfReference + limit.storage) * rms
                     : std::numeric_limits<double>::infinity();
  }
  return 0;
}

Agreement agreement_of(const ComparisonSums& sums, const ReferenceSums& reference,
                       const Limit& limit) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Agreement a = {.max_error = sums.max_error,
                 .worst = sums.worst,
                 .expected = sums.expected,
                 .found = sums.found};
  // Clamped: rounding may leave 1 + 1e-16.
  if (reference.square > 0 || sums.found_square > 0) {
    const double lengths = std::sqrt(reference.square) * std::sqrt(sums.found_square);
    a.cosine = lengths > 0 && std::isfinite(sums.product / lengths)
                   ? std::clamp(sums.product / lengths, -1.0, 1.0)
                   : 0;
  }
  const double rms = reference.rms();
  const double error_rms = std::sqrt(sums.error_square / std::max(reference.finite, 1.0));
  if (error_rms > 0) a.rms_relative = rms > 0 ? error_rms / rms : kInfinity;
  a.share_of_limit = std::max(sums.worst_share, 0.0);
  if (error_rms > 0) {
    const double allowed = allowed_rms(reference, limit);
    a.share_of_limit = std::max(a.share_of_limit, allowed > 0 ? error_rms / allowed : kInfinity);
  }
  if (reference.magnitude > 0) a.shortfall = sums.shortfall / reference.magnitude;
  if (limit.storage > 0) {
    // Rounding to nearest is as often up as down: the sum of so many errors is that of a random
    // walk. Cutting off takes 0.7 of `storage` from every value.
    constexpr double kShortfall = 0.35, kWalk = 4, kOneRounding = 0.6;
    const double walk = kOneRounding * limit.storage * std::sqrt(reference.square) +
                        limit.rms * std::sqrt(reference.size_square);
    // Values that are all within `atol` of zero may be cut off to zero.
    const double absolute =
        limit.kind == Limit::Kind::kElementwise ? limit.atol * reference.finite : 0;
    const double allowed =
        kShortfall * limit.storage * reference.magnitude + kWalk * walk + absolute;
    const double share = std::abs(sums.shortfall) / allowed;
    a.cut_off = share > 1 && a.share_of_limit <= 1;
    if (allowed > 0) a.share_of_limit = std::max(a.share_of_limit, share);
  }
  a.agrees = a.share_of_limit <= 1;
  return a;
}

}  // namespace duet
