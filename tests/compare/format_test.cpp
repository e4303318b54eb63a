#include "compare/tables/format.h"

#include <gtest/gtest.h>

#include <limits>

namespace duet {
namespace {

TEST(Format, SignificantKeepsThreeDigitsAndAllOfAnInteger) {
  EXPECT_EQ(format_significant(0.4116), "0.412");
  EXPECT_EQ(format_significant(4.116), "4.12");
  EXPECT_EQ(format_significant(9.996), "10.0");
  EXPECT_EQ(format_significant(41.16), "41.2");
  EXPECT_EQ(format_significant(999.6), "1,000");
  EXPECT_EQ(format_significant(41234.4), "41,234");
  EXPECT_EQ(format_significant(-1234567), "-1,234,567");
  EXPECT_EQ(format_significant(0), "0");
  EXPECT_EQ(format_significant(2.5e-6), "2.5e-06");
  EXPECT_EQ(format_significant(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(format_significant(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(format_significant(1e300), "1.0e+300");
}

TEST(Format, CountsAreWhole) {
  EXPECT_EQ(format_whole(64), "64");
  EXPECT_EQ(format_whole(1234567.4), "1,234,567");
  EXPECT_EQ(format_whole(0), "0");
  EXPECT_EQ(format_whole(1e300), "1.0e+300");
}

TEST(Format, SpeedupsAndTheirIntervals) {
  EXPECT_EQ(format_speedup(2.114), "2.11x");
  EXPECT_EQ(format_speedup(0.04744), "0.0474x");
  EXPECT_EQ(format_speedup(123.456), "123.46x");
  EXPECT_EQ(format_interval(2.08, 2.131), "2.08 to 2.13");
  EXPECT_EQ(format_interval(0.95, 1.05), "0.950 to 1.05");
}

TEST(Format, SharesArePercentages) {
  EXPECT_EQ(format_share(0.374), "37%");
  EXPECT_EQ(format_share(0.0414), "4.1%");
  EXPECT_EQ(format_share(0.0996), "10%");
  EXPECT_EQ(format_share(0.000204), "0.02%");
  EXPECT_EQ(format_share(0), "0%");
  EXPECT_EQ(format_share(123.4), "12,340%");
  EXPECT_EQ(format_share(std::numeric_limits<double>::infinity()), "inf");
}

TEST(Format, ErrorsAndWhatIsCloseToOne) {
  EXPECT_EQ(format_error(3.14e-7), "3.1e-07");
  EXPECT_EQ(format_error(0), "0");
  EXPECT_EQ(format_near_one(0.99999983), "0.9999998");
  EXPECT_EQ(format_near_one(1), "1");
  EXPECT_EQ(format_near_one(0.5), "0.5000");
  EXPECT_EQ(format_near_one(-0.2), "-0.2000");
  EXPECT_EQ(format_accuracy(0.91266), "91.27%");
}

TEST(Format, Times) {
  EXPECT_EQ(format_seconds(0.0041), "4.10 ms");
  EXPECT_EQ(format_seconds(0), "0.00 s");
  EXPECT_EQ(format_seconds(0.314), "0.31 s");
  EXPECT_EQ(format_seconds(48.34), "48.3 s");
  EXPECT_EQ(format_seconds(247.9), "4 min 8 s");
  EXPECT_EQ(format_time(12.34), "12.3 us");
  EXPECT_EQ(format_time(1234), "1.23 ms");
  EXPECT_EQ(format_time(2.5e6), "2.50 s");
}

}  // namespace
}  // namespace duet
