#include "measure/check/comparison_sums.h"

#include <gtest/gtest.h>

#include "measure/check/guarded_buffer.h"
#include "support/comparison_cases.h"

namespace duet {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Sums over the elements one after the other, from the definitions.
struct Plain {
  double reference_square = 0, size_square = 0, finite = 0;
  double error_square = 0, found_square = 0, product = 0, max_error = 0;
  double worst_share = -1;
  size_t worst = 0;

  explicit Plain(const ComparisonCase& c) {
    for (size_t i = 0; i < c.expected.size(); ++i) {
      if (!std::isfinite(c.expected[i])) continue;
      const double size = c.sizes.empty() ? c.expected[i] : c.sizes[i];
      reference_square += c.expected[i] * c.expected[i];
      size_square += size * size;
      finite += 1;
    }
    const double rms = std::sqrt(size_square / std::max(finite, 1.0));
    for (size_t i = 0; i < c.expected.size(); ++i) {
      const double e = c.expected[i], f = c.found[i];
      const double share = share_of(c.limit, e, f, c.sizes.empty() ? rms : c.sizes[i]);
      const double error = share == 0 ? 0 : std::isfinite(f - e) ? std::abs(f - e) : kInfinity;
      error_square += error * error;
      max_error = std::max(max_error, error);
      if (std::isfinite(e)) {
        found_square += f * f;
        product += e * f;
      }
      if (share > worst_share) {
        worst_share = share;
        worst = i;
      }
    }
  }

  static double share_of(const Limit& limit, double e, double f, double size) {
    if (e == f || (std::isnan(e) && std::isnan(f))) return 0;
    if (!std::isfinite(f - e)) return kInfinity;
    double allowed = 0;
    switch (limit.kind) {
      case Limit::Kind::kExact:
        return kInfinity;
      case Limit::Kind::kRms:
        allowed = kWorstElement * limit.rms * size + limit.storage * std::abs(e);
        break;
      case Limit::Kind::kElementwise:
        allowed = limit.atol + (limit.rtol + limit.storage) * std::abs(e);
        break;
    }
    return std::abs(f - e) / allowed;
  }
};

void expect_close_sum(double found, double expected, const char* what) {
  if (std::isnan(expected) || std::isinf(expected)) {
    EXPECT_EQ(std::isnan(found), std::isnan(expected)) << what;
    EXPECT_EQ(std::isinf(found), std::isinf(expected)) << what;
  } else {
    EXPECT_NEAR(found, expected, 1e-11 * std::abs(expected)) << what;
  }
}

class Comparison : public testing::TestWithParam<ComparisonCase> {};

TEST_P(Comparison, AddsUpWhatTheDefinitionsSay) {
  const ComparisonCase& c = GetParam();
  const auto count = static_cast<int64_t>(c.expected.size());
  const double* sizes = c.sizes.empty() ? nullptr : c.sizes.data();
  const TensorDesc desc = {{count}, c.dtype};
  const Buffer found = stored(desc, c.found, Device::kCpu);
  const ReferenceSums reference = reference_sums(c.expected.data(), sizes, count);
  const ComparisonSums sums =
      comparison_sums_on_cpu({c.expected.data(), sizes, reference}, {desc, found.data()}, c.limit);
  const Plain plain(c);
  EXPECT_EQ(reference.finite, plain.finite);
  expect_close_sum(reference.square, plain.reference_square, "reference's squares");
  expect_close_sum(reference.size_square, plain.size_square, "squares of sizes");
  expect_close_sum(sums.error_square, plain.error_square, "squares of errors");
  expect_close_sum(sums.found_square, plain.found_square, "squares");
  expect_close_sum(sums.product, plain.product, "products");
  EXPECT_EQ(sums.max_error, plain.max_error);
  ASSERT_GE(sums.worst, 0);
  if (sizes) {  // without them the share hangs on the last bits of the RMS
    EXPECT_EQ(sums.worst_share, plain.worst_share);
    EXPECT_EQ(sums.worst, static_cast<int64_t>(plain.worst));
  }
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  EXPECT_TRUE(same(sums.expected, c.expected[static_cast<size_t>(sums.worst)]));
  EXPECT_TRUE(same(sums.found, c.found[static_cast<size_t>(sums.worst)]));
}

INSTANTIATE_TEST_SUITE_P(Cases, Comparison, testing::ValuesIn(comparison_cases()));

TEST(ComparisonSums, OfNothingAgree) {
  const Agreement a = agreement_of({}, {}, Limit::exact());
  EXPECT_TRUE(a.agrees);
  EXPECT_EQ(a.worst, -1);
  EXPECT_EQ(a.share_of_limit, 0);
}

TEST(ComparisonSums, AreJudgedByTheirLimit) {
  // 4 values of 2 with sizes of 4, all errors 0.1.
  const ReferenceSums reference = {.square = 16, .size_square = 64, .finite = 4};
  ComparisonSums sums = {.error_square = 0.04, .found_square = 16, .product = 16};
  sums.max_error = 0.1;
  sums.worst_share = 0.25;
  sums.worst = 2;
  Limit limit = Limit::of_rms(0.05);  // 0.2 of these sizes
  EXPECT_NEAR(agreement_of(sums, reference, limit).share_of_limit, 0.5, 1e-12);
  EXPECT_NEAR(agreement_of(sums, reference, limit).rms_relative, 0.05, 1e-12);
  EXPECT_EQ(agreement_of(sums, reference, limit).cosine, 1);
  limit.storage = 0.1;  // and 0.2 of the values
  EXPECT_NEAR(agreement_of(sums, reference, limit).share_of_limit, 0.25, 1e-12);
  sums.worst_share = 1.5;  // one element alone is beyond its own limit
  EXPECT_FALSE(agreement_of(sums, reference, limit).agrees);
  sums.worst_share = 0.25;
  EXPECT_FALSE(agreement_of(sums, reference, Limit::elementwise()).agrees)
      << "errors of 5% of values that atol would hide";
}

}  // namespace
}  // namespace duet
