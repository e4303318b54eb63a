#include "lab/puzzle.h"

#include <gtest/gtest.h>

#include "support/text.h"
#include "user_kernels/starter.h"

namespace duet {
namespace {

TEST(Puzzle, HasTheFormulaAndTheLaunchAndNoBody) {
  const std::string text = puzzle_text(starter_text("softmax", "puzzle"), "forward");
  EXPECT_TRUE(has(text, "// softmax custom_puzzle, to be written",
                  "docs/kernels-at-run-time.md explains", "y = exp(x) / sum of exp(x)",
                  "DUET_REQUIRES(!NHWC", "__global__ void forward(const float* x, float* y) {\n",
                  "  // yours\n}\nDUET_LAUNCH(forward, forward, ceil_div(ROWS, BLOCK), BLOCK);\n"))
      << text;
  for (const char* gone : {"expf", "a thread computes one row", "backward("}) {
    EXPECT_EQ(text.find(gone), std::string::npos) << gone;
  }
}

TEST(Puzzle, OfEveryStarterAndPass) {
  const std::vector<std::pair<std::string, std::string>> kPasses[] = {
      {{"conv2d", "backward_data"}, {"conv2d", "backward_filter"}, {"linear", "backward_data"}},
      {{"max_pool2d", "backward"}, {"relu", "backward"}, {"softmax", "backward"}}};
  for (const auto& passes : kPasses) {
    for (const auto& [type, pass] : passes) {
      const std::string text = puzzle_text(starter_text(type, "puzzle"), pass);
      EXPECT_TRUE(has(text, "  // yours\n}\n", "DUET_LAUNCH(" + pass + ",")) << type;
      EXPECT_EQ(text.find("return"), std::string::npos) << text;
    }
  }
  for (const std::string& type : starter_types()) {
    EXPECT_TRUE(has(puzzle_text(starter_text(type, "puzzle"), "forward"), "  // yours\n}\n"));
  }
  EXPECT_EQ(puzzle_text(starter_text("relu", "puzzle"), "backward_data"), "");
}

TEST(Puzzle, APassOfTwoKernelsHasBoth) {
  const std::string text = puzzle_text(starter_text("linear", "puzzle"), "backward_filter");
  EXPECT_TRUE(has(text, "void filter_gradient(", "DUET_LAUNCH(backward_filter, filter_gradient",
                  "void bias_gradient(", "// db[o] = sum over n of dy[n,o]"))
      << text;
}

std::optional<MeasuredArm> arm(const std::string& id, double us, double share) {
  MeasuredArm arm{.implementation = id, .agrees = true, .share_of_floor = share};
  arm.us = {us, us, us};
  return arm;
}

TEST(Puzzle, SaysBetweenWhichRungsOneStands) {
  BenchRow row;
  MeasuredArm wrong{.implementation = "custom_wrong", .agrees = false};
  row.arms = {arm("cudnn", 10, 0.5), arm("custom_puzzle", 40, 0.125), arm("custom_naive", 80, 0.06),
              wrong};
  EXPECT_EQ(
      rungs_text(row, "custom_puzzle"),
      "  the rungs, fastest first, timed in turns in short blocks:\n"
      "       10.0 us     50% of the floor  cudnn\n"
      "  >    40.0 us     13% of the floor  custom_puzzle\n"
      "       80.0 us    6.0% of the floor  custom_naive\n"
      "  yours is between cudnn, which is 4.00x as fast, and custom_naive, which is 0.500x as "
      "fast\n");
  EXPECT_TRUE(
      has(rungs_text(row, "cudnn"), "yours is the fastest; behind it stands custom_puzzle"));
  EXPECT_TRUE(
      has(rungs_text(row, "custom_naive"), "yours is the slowest; above it stands custom_p"));
  EXPECT_EQ(rungs_text(row, "custom_wrong"), "");
}

}  // namespace
}  // namespace duet
