#include "measure/check/classify.h"

#include <algorithm>
#include <cmath>

#include "core/number_text.h"
#include "measure/examine/wrong_elements.h"

namespace duet {
namespace {

// RMS-relative errors of products whose factors are rounded to 11 and to 8 bits: about 2.5e-4 and
// 2e-3, whatever the length of the sum.
constexpr double kLeastOfTf32 = 5e-5, kLeastOfBf16 = 1e-3, kMostOfBf16 = 1e-2;

struct Counts {
  size_t all = 0, poison = 0, zeros = 0, expected_zeros = 0, not_finite = 0, wrong = 0;
  size_t beyond = 0;  // their limits
  std::vector<ElementState> states;
};

bool is_poison(double value, DType dtype) {
  if (is_float(dtype)) return std::isnan(value);
  return value == (dtype == DType::kUInt8 ? 255 : -1);
}

double elementwise(const Limit& limit, double expected) {
  if (limit.kind != Limit::Kind::kElementwise) return 0;
  return limit.atol + limit.rtol * std::abs(expected);
}

Counts count(const TensorResult& tensor, const NamedValues& output, const NamedValues& expected) {
  double rms = 0;
  for (double e : expected.values) rms += std::isfinite(e) ? e * e : 0;
  rms = std::sqrt(rms / std::max<double>(1, static_cast<double>(expected.values.size())));
  const double rounding = tensor.limit.kind == Limit::Kind::kRms ? tensor.limit.rms * rms : 0;
  Counts counts{.all = output.values.size()};
  counts.states.assign(counts.all, ElementState::kRight);
  for (size_t i = 0; i < counts.all; ++i) {
    const double e = expected.values[i], f = output.values[i];
    counts.expected_zeros += e == 0;
    counts.zeros += f == 0;
    if (e == f || (std::isnan(e) && std::isnan(f))) continue;
    const bool poison = is_poison(f, output.desc.dtype);
    const bool not_finite = std::isfinite(e) && !std::isfinite(f);
    const double stored = tensor.limit.storage * std::abs(e);
    const bool is_beyond = !(std::abs(f - e) <= rounding + stored + elementwise(tensor.limit, e));
    counts.poison += poison;
    counts.not_finite += not_finite;
    counts.wrong += !(std::abs(f - e) <= rounding + stored);
    counts.beyond += is_beyond;
    if (is_beyond) counts.states[i] = ElementState::kWrong;
    if (poison || not_finite) counts.states[i] = ElementState::kNotFinite;
  }
  return counts;
}

}  // namespace

Fault classify(const std::vector<TensorResult>& tensors, const std::vector<NamedValues>& outputs,
               const std::vector<NamedValues>& expected) {
  const auto worst = std::max_element(tensors.begin(), tensors.end(), [](auto& a, auto& b) {
    return a.agreement.share_of_limit < b.agreement.share_of_limit;
  });
  const auto index = static_cast<size_t>(worst - tensors.begin());
  const Counts counts = count(*worst, outputs[index], expected[index]);
  const Agreement& a = worst->agreement;
  const std::string of = std::to_string(counts.all), name = worst->name;
  const std::string detail = " (" + a.to_string() + " at " + index_text(worst->desc, a.worst) +
                             "; limit: " + worst->limit.to_string() + ")";

  if (counts.poison == counts.all) {
    return {FaultKind::kUnwritten, "leaves " + name +
                                       " as it was before the call: nothing was written, so any "
                                       "right result there would be somebody else's"};
  }
  if (counts.zeros == counts.all && counts.expected_zeros < counts.all) {
    return {FaultKind::kZeros, "returns zeros in all " + of + " elements of " + name};
  }
  const std::string picture = picture_of(worst->desc, counts.states);
  if (counts.poison > 0) {
    return {FaultKind::kHalfWritten,
            "leaves " + std::to_string(counts.poison) + " of " + of + " elements of " + name +
                " unwritten (or writes NaN there), the worst at " +
                index_text(worst->desc, a.worst),
            picture};
  }
  if (counts.not_finite > 0) {
    return {FaultKind::kNotFinite,
            "gives values that are not finite in " + std::to_string(counts.not_finite) + " of " +
                of + " elements of " + name + detail,
            picture};
  }
  if (a.cut_off) {
    return {FaultKind::kLowPrecision,
            "cuts " + name + " off where it is to be rounded: its values are " +
                printed("%.2g", std::abs(a.shortfall)) + " of themselves " +
                (a.shortfall > 0 ? "nearer to" : "farther from") + " zero on average" + detail};
  }
  // Narrow arithmetic errs a little nearly everywhere; a mistake errs much in some places.
  const bool everywhere = counts.wrong > counts.all / 4 && worst->limit.storage == 0;
  if (everywhere && a.rms_relative >= kLeastOfTf32 && a.rms_relative < kMostOfBf16) {
    const bool bf16 = a.rms_relative >= kLeastOfBf16;
    return {FaultKind::kLowPrecision,
            std::string("computes in lower precision than asked: the errors of ") + name +
                " are those of " + (bf16 ? "bf16" : "tf32 or fp16") + ", RMS-relative " +
                printed("%.2g", a.rms_relative) + detail};
  }
  return {FaultKind::kWrong,
          "is wrong in " + std::to_string(std::max<size_t>(counts.beyond, 1)) + " of " + of +
              " elements of " + name + detail,
          picture};
}

}  // namespace duet
