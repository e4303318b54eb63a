// What NVIDIA's tools are told while the trainer runs. A build with CUDA tells it on the CPU as
// well, so this needs no GPU.
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/trainer_process.h"
#include "test_paths.h"

namespace duet {
namespace {

// The names of the ranges with all ranges around them: "step/batch gather".
[[maybe_unused]] std::vector<std::string> ranges(const std::string& record) {
  std::vector<std::string> open = {""}, paths;
  for (const std::string& line : lines_of(record)) {
    if (line == "pop") {
      open.pop_back();
      EXPECT_FALSE(open.empty()) << "popped more than pushed";
    } else {
      EXPECT_EQ(line.find("push "), 0u) << line;
      paths.push_back(open.back() + line.substr(5));
      open.push_back(paths.back() + "/");
    }
  }
  EXPECT_EQ(open.size(), 1u) << "a range was left open";
  return paths;
}

TEST(TrainerNvtx, RangesNameLayersAndPasses) {
#ifndef DUET_NVTX_RECORDER
  GTEST_SKIP() << "needs a build with CUDA";
#else
  const TrainerFolder folder;
  const std::string record = folder / "record";
  const Outcome outcome = folder.run("--config tiny.yaml --epochs 1 --out run",
                                     {.environment = {"NVTX_INJECTION64_PATH=" DUET_NVTX_RECORDER,
                                                      "NVTX_RECORDER_FILE=" + record}});
  ASSERT_EQ(outcome.code, kExitDone) << outcome.err;
  const std::vector<std::string> forward = {"batch gather", "conv1 forward cpu_blas",
                                            "relu1 forward cpu_reference", "fc1 forward cpu_blas",
                                            "loss forward cpu_reference"};
  const std::vector<std::string> backward = {
      "loss backward cpu_reference",    "fc1 backward_filter cpu_blas",
      "fc1 backward_data cpu_blas",     "relu1 backward cpu_reference",
      "conv1 backward_filter cpu_blas", "update adam"};
  std::vector<std::string> expected;
  const auto add = [&](const std::string& around, const std::vector<std::string>& names) {
    for (const std::string& name : names) expected.push_back(around + name);
  };
  for (int step = 0; step < 4; ++step) {  // 64 images, batch 16
    add("", {"step"});
    add("step/", forward);
    add("step/", backward);
  }
  add("", {"evaluation"});
  for (int batch = 0; batch < 2; ++batch) {  // 32 images
    add("evaluation/", forward);
    add("evaluation/", {"advance"});
  }
  EXPECT_EQ(ranges(folder.read("record")), expected);
#endif
}

}  // namespace
}  // namespace duet
