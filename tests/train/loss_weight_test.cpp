// The sum of the class weights of a batch's rows, on every device.
#include "train/step/loss_weight.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

double sum_on(Device device, const std::vector<int32_t>& labels, bool mixed, int32_t ignored) {
  const std::vector<float> class_weights = {1, 10, 0, 0.25};
  Context context(device);
  const Buffer rows(device, labels.size() * sizeof(int32_t)),
      weights(device, class_weights.size() * sizeof(float)), sum(device, sizeof(double));
  copy_bytes(rows.data(), device, labels.data(), Device::kCpu, rows.bytes());
  copy_bytes(weights.data(), device, class_weights.data(), Device::kCpu, weights.bytes());
  fill_bytes(sum.data(), device, 0xff, sum.bytes());  // a NaN
  const auto n = static_cast<int64_t>(labels.size()) / (mixed ? kMixedWords : 1);
  sum_class_weights(context,
                    {.labels = static_cast<const int32_t*>(rows.data()),
                     .rows = n,
                     .mixed = mixed,
                     .ignored = ignored,
                     .class_weights = static_cast<const float*>(weights.data()),
                     .classes = 4},
                    static_cast<double*>(sum.data()));
  context.synchronize();
  double result = 0.0;
  copy_bytes(&result, Device::kCpu, sum.data(), device, sizeof result);
  return result;
}

void expect_sum(double expected, const std::vector<int32_t>& labels, bool mixed = false,
                int32_t ignored = kNoClass) {
  for (const Device device : {Device::kCpu, Device::kGpu}) {
    if (device == Device::kGpu && !gpu_available()) continue;
    EXPECT_EQ(sum_on(device, labels, mixed, ignored), expected) << to_string(device);
  }
}

TEST(LossWeight, IsTheSumOverTheRowsThatCount) {
  expect_sum(0.0, {-1});
  expect_sum(0.0, {2, 2});
  expect_sum(22.25, {0, 1, 2, 3, 1, -1, 4, 0});
  std::vector<int32_t> many;
  for (int i = 0; i < 1027; ++i) many.push_back(i % 6 - 1);
  expect_sum(1923.75, many);  // 171 of each; 4 is no class
}

TEST(LossWeight, IgnoresAClass) {
  expect_sum(2.25, {0, 1, 2, 3, 1, -1, 4, 0}, false, 1);
  expect_sum(0.0, {1, 1}, false, 1);
  expect_sum(22.25, {0, 1, 2, 3, 1, -1, 4, 0}, false, 4);
  // One of the two labels is ignored, with either share, or none is.
  expect_sum(0.25, {0, 1, kWholeShare * 3 / 4, 1, 3, kWholeShare / 4, 3, 2, kWholeShare}, true, 1);
}

TEST(LossWeight, OfAMixedRowIsTheMeanByItsShares) {
  // 3/4 of 0 and 1/4 of 1; a quarter of 0 and the rest of 3; whole; one that does not count.
  expect_sum(
      0.75 + 2.5 + 0.25 + 0.1875 + 10,
      {0, 1, kWholeShare * 3 / 4, 0, 3, kWholeShare / 4, 1, 2, kWholeShare, 1, -1, 0, -1, 0, 5},
      true);
}

}  // namespace
}  // namespace duet
