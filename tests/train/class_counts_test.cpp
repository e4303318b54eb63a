// Metrics by class, counted from outputs and labels, on every device.
#include "train/evaluate/class_counts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "core/mixed_labels.h"
#include "device/device.h"

namespace duet {
namespace {

std::vector<uint64_t> counts_of(Device device, const std::vector<float>& outputs,
                                const std::vector<int32_t>& labels, bool mixed = false,
                                int32_t ignored = kNoClass) {
  Context context(device);
  const int64_t n = static_cast<int64_t>(labels.size()) / (mixed ? kMixedWords : 1);
  const int64_t c = static_cast<int64_t>(outputs.size()) / n;
  const ClassCounts at{c};
  std::vector<uint64_t> counts(static_cast<size_t>(at.size()));
  const Buffer x(device, outputs.size() * sizeof(float)),
      y(device, labels.size() * sizeof(int32_t)), sums(device, counts.size() * sizeof(uint64_t));
  copy_bytes(x.data(), device, outputs.data(), Device::kCpu, x.bytes());
  copy_bytes(y.data(), device, labels.data(), Device::kCpu, y.bytes());
  fill_bytes(sums.data(), device, 0, sums.bytes());
  count_classes(
      context,
      {{{{n, c}}, x.data()}, {mixed ? mixed_labels_desc(n) : labels_desc(n), y.data()}, ignored},
      static_cast<uint64_t*>(sums.data()));
  context.synchronize();
  copy_bytes(counts.data(), Device::kCpu, sums.data(), device, sums.bytes());
  return counts;
}

std::vector<Device> devices() {
  if (gpu_available()) return {Device::kCpu, Device::kGpu};
  return {Device::kCpu};
}

TEST(ClassCounts, OfAFewRows) {
  // Right; the first of equal outputs; wrong; a NaN, which predicts nothing; rows without a class.
  const float nan = NAN;
  const std::vector<float> outputs = {3, 1, 2, 5, 5, 1, 0, 2, 1, nan, 1, 2, 9, 1, 1, 9, 1, 1};
  for (Device device : devices()) {
    EXPECT_EQ(counts_of(device, outputs, {0, 1, 2, 0, -1, 3}),
              (std::vector<uint64_t>{2, 1, 1, 2, 1, 0, 1, 0, 0, /* pairs */ 1, 0, 0, 1, 0, 0, 0, 1,
                                     0, 3}))
        << to_string(device);
  }
}

TEST(ClassCounts, IgnoreAClass) {
  const std::vector<float> outputs = {3, 1, 2, 5, 5, 1, 0, 2, 1, 9, 1, 1};
  for (Device device : devices()) {
    EXPECT_EQ(counts_of(device, outputs, {0, 1, 1, 2}, false, 1),
              (std::vector<uint64_t>{1, 0, 1, 2, 0, 0, 1, 0, 0, /* pairs */ 1, 0, 0, 0, 0, 0, 1, 0,
                                     0, 2}))
        << to_string(device);
  }
}

// Of N x T x C a position is a row, also where there are as many positions as mixed labels have
// columns.
TEST(ClassCounts, OfPositions) {
  const std::vector<float> values = {3, 1, 1, 2, 0, 4, 7, 6, 1, 5, 2, 2};
  const std::vector<int32_t> labels = {0, 1, 0, -1, 1, 0};
  const std::vector<uint64_t> expected = counts_of(Device::kCpu, values, labels);
  for (Device device : devices()) {
    Context context(device);
    std::vector<uint64_t> counts(static_cast<size_t>(ClassCounts{2}.size()));
    const Buffer x(device, values.size() * sizeof(float)), y(device, labels.size() * sizeof(int)),
        sums(device, counts.size() * sizeof(uint64_t));
    copy_bytes(x.data(), device, values.data(), Device::kCpu, x.bytes());
    copy_bytes(y.data(), device, labels.data(), Device::kCpu, y.bytes());
    fill_bytes(sums.data(), device, 0, sums.bytes());
    const Tensor outputs{{{2, 3, 2}}, x.data()};
    count_classes(context, {outputs, {labels_beside(outputs.desc), y.data()}},
                  static_cast<uint64_t*>(sums.data()));
    context.synchronize();
    copy_bytes(counts.data(), Device::kCpu, sums.data(), device, sums.bytes());
    EXPECT_EQ(counts, expected) << to_string(device);
  }
}

TEST(ClassCounts, TopFiveIsByRank) {
  // Of eight outputs the label's is the r-th largest; of equal ones the first is the larger.
  for (Device device : devices()) {
    for (int rank = 1; rank <= 8; ++rank) {
      const std::vector<float> outputs = {8, 7, 6, 5, 4, 3, 2, 1};
      EXPECT_EQ(counts_of(device, outputs, {rank - 1}).back(), rank <= 5 ? 1u : 0u) << rank;
      EXPECT_EQ(counts_of(device, std::vector<float>(8), {rank - 1}).back(), rank <= 5 ? 1u : 0u);
    }
  }
}

TEST(ClassCounts, EndABatch) {
  for (Device device : devices()) {
    Context context(device);
    const float loss = 1.5f;
    const int32_t hits[] = {2, 3};
    StepState expected;
    advance_state(expected, {.loss = &loss, .count = 1, .parts = {{&loss, hits}}});
    const std::vector<float> outputs = {1, 2, 2, 1};
    const std::vector<int32_t> labels = {1, 1};
    const Buffer x(device, sizeof(float) * 4), y(device, sizeof(int32_t) * 2),
        sums(device, sizeof(uint64_t) * ClassCounts{2}.size()), state(device, sizeof(StepState)),
        of_loss(device, sizeof loss), of_hits(device, sizeof hits);
    const StepState zero;
    copy_bytes(x.data(), device, outputs.data(), Device::kCpu, x.bytes());
    copy_bytes(y.data(), device, labels.data(), Device::kCpu, y.bytes());
    copy_bytes(state.data(), device, &zero, Device::kCpu, sizeof zero);
    copy_bytes(of_loss.data(), device, &loss, Device::kCpu, sizeof loss);
    copy_bytes(of_hits.data(), device, hits, Device::kCpu, sizeof hits);
    fill_bytes(sums.data(), device, 0, sums.bytes());
    count_classes(context, {{{{2, 2}}, x.data()}, {labels_desc(2), y.data()}},
                  static_cast<uint64_t*>(sums.data()), static_cast<StepState*>(state.data()),
                  {.loss = static_cast<const float*>(of_loss.data()),
                   .count = 1,
                   .parts = {{static_cast<const float*>(of_loss.data()),
                              static_cast<const int32_t*>(of_hits.data())}}});
    context.synchronize();
    StepState found;
    copy_bytes(&found, Device::kCpu, state.data(), device, sizeof found);
    EXPECT_EQ(found.step, 1u);
    EXPECT_EQ(found.totals[0].sum, expected.totals[0].sum);
    EXPECT_EQ(found.totals[0].weight, 3.0);
  }
}

TEST(ClassCounts, AreTheSameOnEveryDevice) {
  std::mt19937 random(5);
  for (const int64_t c : {1, 3, 10, 33, 1000, 1025}) {
    std::vector<int32_t> labels(301);
    for (int32_t& label : labels) {
      label = static_cast<int32_t>(random() % static_cast<uint64_t>(c + 1)) - 1;
    }
    std::vector<float> outputs(static_cast<size_t>(301 * c));
    for (float& output : outputs) output = static_cast<float>(random() % 17) - 8;  // many ties
    const std::vector<uint64_t> expected = counts_of(Device::kCpu, outputs, labels);
    std::vector<int32_t> mixed;  // of which the first is counted
    for (int32_t label : labels) mixed.insert(mixed.end(), {label, -1, 100});
    for (Device device : devices()) {
      EXPECT_EQ(counts_of(device, outputs, labels), expected) << c;
      EXPECT_EQ(counts_of(device, outputs, mixed, true), expected) << c;
    }
  }
}

}  // namespace
}  // namespace duet
