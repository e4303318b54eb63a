// Initial values on the CPU: their definition, and its series against libm.
#include "net/initialise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "net/weights.h"

namespace duet {
namespace {

ParameterSpec spec_of(Init init, int64_t elements) {
  return {.name = "weight", .desc = {{elements}}, .init = init, .fan_in = 75, .fan_out = 200};
}

constexpr uint32_t kWords[] = {0,           1,           2,           3,           0x1FFFFFFFu,
                               0x20000000u, 0x3FFFFFFFu, 0x40000000u, 0x5FFFFFFFu, 0x60000000u,
                               0x7FFFFFFFu, 0x80000000u, 0x9FFFFFFFu, 0xA0000000u, 0xB504F333u,
                               0xB504F334u, 0xBFFFFFFFu, 0xC0000000u, 0xDFFFFFFFu, 0xE0000000u,
                               0xFFFFFFFEu, 0xFFFFFFFFu};

/// Calls check(word) for words at which the series change, and many others.
template <class Check>
void for_each_word(Check&& check) {
  for (uint32_t word : kWords) check(word);
  for (uint32_t i = 0; i < 20000; ++i) check(philox_block(5, 0, 1, i).v[0]);
}

TEST(Normal, LogarithmIsLibms) {
  for_each_word([](uint32_t word) {
    const double expected = std::log(unit_double(word));
    ASSERT_NEAR(log_by_series(unit_double(word)), expected, 0x1p-50 * std::abs(expected)) << word;
  });
}

TEST(Normal, CosineAndSineAreLibms) {
  for_each_word([](uint32_t word) {
    double cosine = 0, sine = 0;
    cos_sin_by_series(unit_double(word), &cosine, &sine);
    const long double angle = 2 * std::numbers::pi_v<long double> * unit_double(word);
    ASSERT_NEAR(cosine, static_cast<double>(std::cos(angle)), 0x1p-51) << word;
    ASSERT_NEAR(sine, static_cast<double>(std::sin(angle)), 0x1p-51) << word;
  });
}

// By libm in double from the same words; the last bit of a float may differ.
TEST(Initialise, ValuesAreThoseOfTheFormulas) {
  constexpr int64_t kCount = 40003;
  constexpr uint64_t kSeed = 77;
  constexpr uint32_t kIndex = 3;
  struct Kind {
    Init init;
    bool normal;
    double scale;
  };
  for (const auto& [init, normal, scale] : {Kind{Init::kDefault, false, 1 / std::sqrt(75.0)},
                                            Kind{Init::kXavierUniform, false, std::sqrt(6 / 275.0)},
                                            Kind{Init::kXavierNormal, true, std::sqrt(2 / 275.0)},
                                            Kind{Init::kHeUniform, false, std::sqrt(6 / 75.0)},
                                            Kind{Init::kHeNormal, true, std::sqrt(2 / 75.0)}}) {
    const std::vector<float> values = initial_values(spec_of(init, kCount), kSeed, kIndex);
    ASSERT_EQ(values.size(), static_cast<size_t>(kCount));
    int inexact = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const auto word = [&](size_t j) {
        return philox_block(kSeed, 0, kStreamInit + kIndex, static_cast<uint32_t>(i / 4)).v[j];
      };
      double value = 2 * unit_double(word(i % 4)) - 1;
      if (normal) {
        const double radius = std::sqrt(-2 * std::log(unit_double(word(i % 4 & 2))));
        const double angle = 2 * std::numbers::pi * unit_double(word((i % 4 & 2) + 1));
        value = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
      }
      const auto expected = static_cast<float>(scale * value);
      inexact += values[i] != expected;
      ASSERT_NEAR(values[i], expected, 0x1p-23 * std::abs(expected)) << i;
    }
    EXPECT_LE(inexact, normal ? 2 : 0);
  }
}

TEST(Initialise, ConstantsAndSizes) {
  EXPECT_EQ(initial_values(spec_of(Init::kOnes, 5), 1, 0), std::vector<float>(5, 1.0f));
  for (float value : initial_values(spec_of(Init::kZeros, 6), 1, 0)) {
    EXPECT_EQ(value, 0.0f);
    EXPECT_FALSE(std::signbit(value));
  }
  // Fewer are the first of more, whatever the loop is cut into.
  const std::vector<float> all = initial_values(spec_of(Init::kHeNormal, 100001), 1, 0);
  for (int64_t count : {1, 2, 3, 4, 5, 1023, 33333}) {
    const std::vector<float> some = initial_values(spec_of(Init::kHeNormal, count), 1, 0);
    EXPECT_EQ(some, std::vector<float>(all.begin(), all.begin() + count)) << count;
  }
}

// Of a normal distribution 68.27% are within one standard deviation, 4.55% beyond two, 0.27% beyond three.
TEST(Initialise, NormalsHaveTheSharesOfTheirDistribution) {
  const std::vector<float> values = initial_values(spec_of(Init::kHeNormal, 1000000), 9, 1);
  const double deviation = std::sqrt(2 / 75.0), count = 1e6;
  const auto beyond = [&](double limit) {
    return std::count_if(values.begin(), values.end(),
                         [&](float v) { return std::abs(v) > limit * deviation; }) /
           count;
  };
  EXPECT_NEAR(beyond(1), 0.3173, 5 * std::sqrt(0.3173 * 0.6827 / count));
  EXPECT_NEAR(beyond(2), 0.0455, 5 * std::sqrt(0.0455 / count));
  EXPECT_NEAR(beyond(3), 0.0027, 5 * std::sqrt(0.0027 / count));
}

}  // namespace
}  // namespace duet
