#include "support/comparison_cases.h"

#include <cmath>
#include <limits>
#include <random>

#include "core/storage.h"
#include "measure/check/comparison_sums.h"

namespace duet {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Values with errors of a few roundings.
ComparisonCase random_case(std::string name, DType dtype, const Limit& limit, int64_t count) {
  std::mt19937 random(static_cast<uint32_t>(count));
  std::normal_distribution<double> normal;
  ComparisonCase c{.name = std::move(name), .dtype = dtype, .limit = limit};
  const bool whole = dtype == DType::kInt32 || dtype == DType::kUInt8;
  for (int64_t i = 0; i < count; ++i) {
    const double e = whole ? std::floor(100 + 20 * normal(random)) : normal(random);
    c.expected.push_back(e);
    c.found.push_back(whole ? e : rounded_to(dtype, e * (1 + 3e-7 * normal(random))));
    c.sizes.push_back(std::abs(e) + std::abs(normal(random)) + 0.1);
  }
  return c;
}

}  // namespace

std::vector<ComparisonCase> comparison_cases() {
  const Limit rms = Limit::of_rms(1e-6), elementwise = Limit::elementwise();
  Limit stored = rms;
  stored.storage = storage_rounding(DType::kBFloat16);
  std::vector<ComparisonCase> all;
  for (int64_t count : {int64_t{1}, int64_t{3}, int64_t{255}, int64_t{257}, int64_t{1000},
                        kComparedInPart, 3 * kComparedInPart + 77}) {
    const std::string n = " of " + std::to_string(count);
    all.push_back(random_case("sizes" + n, DType::kFloat32, rms, count));
    all.push_back(random_case("no sizes" + n, DType::kFloat32, rms, count));
    all.back().sizes.clear();
    all.push_back(random_case("element-wise" + n, DType::kFloat32, elementwise, count));
    all.push_back(random_case("bfloat16" + n, DType::kBFloat16, stored, count));
    all.push_back(random_case("double" + n, DType::kFloat64, rms, count));
    all.push_back(random_case("exact" + n, DType::kFloat32, Limit::exact(), count));
    for (DType dtype : {DType::kInt32, DType::kUInt8}) {
      all.push_back(random_case(std::string(to_string(dtype)) + n, dtype, Limit::exact(), count));
      all.back().found[static_cast<size_t>(count / 2)] += 1;
    }
    const auto changed = [&](const std::string& what, auto&& change) {
      for (const Limit& limit : {rms, elementwise}) {
        ComparisonCase c = random_case(what + n, DType::kFloat32, limit, count);
        change(c, static_cast<size_t>(count / 3), static_cast<size_t>(count - 1));
        all.push_back(std::move(c));
      }
    };
    changed("equal", [](auto& c, size_t, size_t) { c.expected = c.found; });
    changed("zeros", [](auto& c, size_t, size_t) { c.found.assign(c.found.size(), 0.0); });
    changed("unwritten", [](auto& c, size_t, size_t) { c.found.assign(c.found.size(), kNaN); });
    changed("NaN", [](auto& c, size_t i, size_t last) { c.found[i] = c.found[last] = kNaN; });
    changed("NaN expected", [](auto& c, size_t i, size_t last) {
      c.expected[i] = c.found[i] = kNaN;
      c.expected[last] = kNaN;
    });
    changed("infinite", [](auto& c, size_t i, size_t last) {
      c.expected[i] = c.found[i] = kInfinity;
      c.found[last] = -kInfinity;
    });
    changed("equal errors", [](auto& c, size_t i, size_t last) {
      for (size_t k : {i, last}) {
        c.expected[k] = 0.5;
        c.found[k] = 0.75;
        c.sizes[k] = 2;
      }
    });
  }
  return all;
}

}  // namespace duet
