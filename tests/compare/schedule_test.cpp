// What --quick leaves out, and the time that is left.
#include "compare/measure/schedule.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

// Two arms' steps of batch 64 that take so many seconds together.
StepTimes steps_of(double training, double inference) {
  StepTimes steps = {.batch = 64, .errors = {"", ""}, .faults = {{}, {}}};
  steps.training = {Times{.seconds = {training / 2}}, Times{.seconds = {training / 2}}};
  steps.inference = {Times{.seconds = {inference / 2}}, Times{.seconds = {inference / 2}}};
  return steps;
}

Dataset images(int64_t train, int64_t validation) {
  Dataset dataset;
  dataset.name = "x";
  dataset.channels = 1;
  dataset.height = dataset.width = 2;
  dataset.train = {.count = train, .images = std::vector<uint8_t>(4 * train, 7)};
  dataset.validation = {.count = validation, .images = std::vector<uint8_t>(4 * validation, 8)};
  for (int64_t i = 0; i < train; ++i) dataset.train.labels.push_back(static_cast<int32_t>(i % 10));
  dataset.validation.labels.assign(validation, 3);
  return dataset;
}

TEST(Schedule, QuickTrainingIsBoundedInTime) {
  const Dataset dataset = images(60000, 10000);
  const TrainingSize gpu = quick_training(steps_of(4e-4, 1e-4), 2, dataset);
  EXPECT_EQ(gpu.train, 60000);
  EXPECT_EQ(gpu.validation, 10000);
  const TrainingSize slow = quick_training(steps_of(0.1, 0.04), 2, dataset);
  EXPECT_EQ(slow.train % 64, 0);
  EXPECT_LE(static_cast<double>(slow.train) / 64 * 0.1 * 2, 12.001);
  EXPECT_GT(slow.train, 3000);
  EXPECT_LT(slow.validation, 10000);
  const TrainingSize slowest = quick_training(steps_of(60, 20), 2, dataset);
  EXPECT_EQ(slowest.train, 640);
  EXPECT_EQ(slowest.validation, 64);
  EXPECT_EQ(quick_training(steps_of(60, 20), 2, images(100, 50)).train, 100);
}

TEST(Schedule, TheFirstImagesAreThoseOfTheDataSet) {
  const Dataset all = images(200, 100), first = first_images(all, {.train = 128, .validation = 64});
  EXPECT_EQ(first.train.count, 128);
  EXPECT_EQ(first.train.images.size(), 4u * 128);
  EXPECT_EQ(first.train.labels,
            std::vector<int32_t>(all.train.labels.begin(), all.train.labels.begin() + 128));
  EXPECT_EQ(first.validation.labels.size(), 64u);
  EXPECT_EQ(first.name, "x");
  EXPECT_EQ(first.height, 2);
}

TEST(Schedule, QuickBatchesAreThoseThatTakeSeconds) {
  EXPECT_EQ(quick_batches(steps_of(4e-4, 1e-4)), (std::vector<int64_t>{1, 64, 1024}));
  EXPECT_EQ(quick_batches(steps_of(0.1, 0.04)), (std::vector<int64_t>{1, 64}));
  EXPECT_EQ(quick_batches(steps_of(3, 1)), (std::vector<int64_t>{1}));
  StepTimes few = steps_of(0.15, 0.05);
  few.batch = 4;  // is timed already
  EXPECT_EQ(quick_batches(few), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(quick_batches({}), (std::vector<int64_t>{1, 64, 1024}));
}

TEST(Schedule, QuickTakesASmallerBatchWhereStepsAreSlow) {
  EXPECT_EQ(quick_batch(steps_of(4e-4, 1e-4)), 64);
  EXPECT_EQ(quick_batch(steps_of(0.2, 0.05)), 64);
  EXPECT_EQ(quick_batch(steps_of(0.4, 0.1)), 32);
  EXPECT_EQ(quick_batch(steps_of(3, 1)), 4);
  EXPECT_EQ(quick_batch(steps_of(300, 100)), kLeastQuickBatch);
  StepTimes one = steps_of(300, 100);
  one.batch = 1;
  EXPECT_EQ(quick_batch(one), 1);
}

TEST(Schedule, EachPartIsExpectedToTakeItsOwnTime) {
  const StepTimes steps = steps_of(0.1, 0.04);
  const TrainingSize size = {.train = 6400, .validation = 640};
  const double none = expected_training_seconds(steps, 0, 2, size, 1);
  EXPECT_DOUBLE_EQ(none, 2 * (100 * 0.1 + 10 * 0.04));
  // Every arm computes each loss twice.
  EXPECT_DOUBLE_EQ(expected_training_seconds(steps, 20, 2, size, 1) - none, 2 * 20 * 0.1);
}

TEST(Schedule, WhatIsExpectedCanBeCorrected) {
  TimeLeft left([] { return 100.0; });
  EXPECT_EQ(left.text(0), "");  // nothing is known
  left.expect("steps", 20);
  left.expect("training", 30);
  left.expect("training", 10);
  left.start("steps");
  EXPECT_DOUBLE_EQ(left.seconds(0), 30);
}

TEST(Schedule, TimeLeftFollowsWhatPasses) {
  double now = 0;
  TimeLeft left([&] { return now; });
  left.expect("layers", 20);
  left.expect("training", 30);
  left.start("layers");
  EXPECT_DOUBLE_EQ(left.seconds(0), 50);
  EXPECT_EQ(left.text(0), "about 50 s left");
  now = 2;
  EXPECT_EQ(left.text(0.1), "");  // told two seconds ago
  now = 40;                       // half of it in twice the time
  EXPECT_DOUBLE_EQ(left.seconds(0.5), 30 + 25);
  left.start("training");
  EXPECT_DOUBLE_EQ(left.seconds(0), 30);
  now = 100;
  EXPECT_DOUBLE_EQ(left.seconds(0), 0);
  now = 110;
  EXPECT_EQ(left.text(0), "about 1 s left");
}

}  // namespace
}  // namespace duet
