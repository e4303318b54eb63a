// What a watch says and keeps; the watch itself is in tests/apps/user_kernels_test.cpp.
#include "lab/watch_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/interrupt.h"
#include "lab/bench_rows.h"
#include "support/layer_case.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

BenchRow row_of(const MeasuredArm& arm) {
  BenchRow row;
  row.problem = "n=4,in=8";
  row.pass = "forward";
  row.arms = {arm};
  return row;
}

MeasuredArm right_arm(const std::vector<double>& us) {
  MeasuredArm arm{.implementation = "custom_mine", .agrees = true};
  arm.us = {us[0], us[0], us[0]};
  arm.rounds_us = us;
  arm.share_of_floor = 0.25;
  arm.tensors = {{.name = "y", .share_of_limit = 0.12}};
  return arm;
}

const std::vector<double> kTens(7, 10.0), kTwenties(7, 20.0);

TEST(WatchText, ARightKernelIsShownBesideWhatWasKept) {
  const KeptTime other = {.problem = "n=4,in=8",
                          .pass = "forward",
                          .id = "cudnn_graph",
                          .measured = "2026-11-21T16:20:03Z",
                          .us = kTens};
  KeptTime elsewhere = other;
  elsewhere.pass = "backward";
  elsewhere.id = "cudnn_other";
  const std::string text = verdict_text(row_of(right_arm(kTwenties)), "custom_mine",
                                        {elsewhere, other}, {.last = 25, .best = 18});
  EXPECT_EQ(text,
            "right (12% of the limit), 20.0 us, 0.500x cudnn_graph (0.500 to 0.500; 10.0 us at "
            "16:20:03 UTC), 25% of the floor's speed, +25.0% since the last, best so far 18.0 us");
}

TEST(WatchText, AWrongKernelIsShownWithItsPictureAndNoTime) {
  MeasuredArm arm = right_arm(kTens);
  arm.agrees = false;
  arm.faults = {{"wrong", "is wrong in 1 of 4 elements of y", "n 1 of 2\nn\\c 01"}};
  EXPECT_EQ(verdict_text(row_of(arm), "custom_mine", {}, {}),
            "WRONG\n    is wrong in 1 of 4 elements of y\n    n 1 of 2\n    n\\c 01");
}

TEST(WatchText, ARefusalIsItsReason) {
  BenchRow row = row_of(right_arm(kTens));
  row.arms.clear();
  row.unsupported = {{"other", "no"}, {"custom_mine", "the filter is not 3x3"}};
  EXPECT_EQ(verdict_text(row, "custom_mine", {}, {}), "the filter is not 3x3");
}

TEST(WatchText, WhatIsKeptIsTold) {
  BenchRow row = row_of(right_arm(kTens));
  const KeptTime time = kept_time(row, *row.arm(0));
  EXPECT_EQ(time.us, kTens);
  EXPECT_EQ(kept_time_text(time), "  forward: custom_mine, 10.0 us, 25% of the floor's speed");
}

TEST(WatchText, TheHistoryGivesTheLastAndTheBestOfThisMachine) {
  const TemporaryFolder folder;
  KernelFile file;
  file.path = folder / "relu_custom_mine.cu";
  const KernelHistory history(file);
  const BenchRow row = row_of(right_arm(kTens));
  EXPECT_TRUE(std::isnan(history.of(row, "H200").last));
  const auto add = [&](double us, const std::string& machine) {
    EXPECT_EQ(history.add(
                  {{"problem", row.problem}, {"pass", row.pass}, {"machine", machine}, {"us", us}}),
              "");
  };
  add(30, "H200");
  add(40, "H200");
  add(1, "A100");
  std::ofstream(folder / "relu_custom_mine.history.jsonl", std::ios::app) << "{\"us\": 2";
  const EarlierTimes earlier = history.of(row, "H200");
  EXPECT_EQ(earlier.last, 40);
  EXPECT_EQ(earlier.best, 30);
}

TEST(KeptReferences, AreComputedOnceForAllPassesAskedFor) {
  const InterruptGuard guard;
  const auto layer = make_layer("relu", {.name = "relu", .x = {{{2, 3}}}});
  KeptReferences references;
  const CheckData& forward = references.of(*layer, {Pass::kForward});
  const double* values = forward.expected.of(Pass::kForward)[0].values.data();
  EXPECT_EQ(references.of(*layer, {Pass::kForward}).expected.of(Pass::kForward)[0].values.data(),
            values);
  const CheckData& both = references.of(*layer, {Pass::kBackward});
  EXPECT_FALSE(both.expected.of(Pass::kBackward).empty());
  EXPECT_FALSE(both.expected.of(Pass::kForward).empty());
  EXPECT_EQ(&references.of(*layer, {Pass::kForward}), &both);
}

}  // namespace
}  // namespace duet
