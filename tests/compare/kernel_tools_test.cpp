// bench --ncu and --sass with tools that only print: which calls they get, and what becomes of their words.
#include "compare/kernel_tools.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "core/error.h"
#include "layers/layer_cases.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class KernelTools : public testing::Test {
 protected:
  ~KernelTools() override { unload_kernels(); }

  std::string tool(const std::string& name, const std::string& script) const {
    folder_.write(name, "#!/bin/sh\n" + script);
    fs::permissions(folder_ / name, fs::perms::owner_all);
    return folder_.path().string() + "/" + name;
  }
  BenchOptions load_relu() const {
    folder_.write("relu_custom_mine.cu",
                  "__global__ void forward(const float* x, float* y) {\n"
                  "  y[threadIdx.x] = fmaxf(x[threadIdx.x], 0.f);\n"
                  "}\n"
                  "DUET_LAUNCH(forward, forward, 1, ELEMENTS);\n");
    load_kernels({folder_.path()});
    BenchOptions options;
    options.problems.layer = "relu";
    options.problems.shape = "n=2,c=3,h=4,w=5";
    return options;
  }

  const TemporaryFolder folder_;
  std::ostringstream out_;
};

TEST_F(KernelTools, NcuProfilesACallThatRunsOnce) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "3"}}, .x = {{{4, 5}}}});
  const std::string ncu = tool("ncu",
                               "echo \"$@\" > \"${0%/*}/call.txt\"\n"
                               "echo '==PROF== Profiling \"naive\"'\n"
                               "echo 'linear custom_naive: ran once'\n"
                               "echo '  Section: Occupancy'\n");
  profile_calls({{layer.get(), Pass::kForward, "custom_naive"}}, ncu, "/bin/bench", out_);
  EXPECT_TRUE(has(out_.str(), "linear n=4,in=5,out=3 forward custom_naive:", "Section: Occupancy"));
  EXPECT_FALSE(has(out_.str(), "==PROF=="));
  EXPECT_TRUE(has(folder_.read("call.txt"), "--section SpeedOfLight",
                  "/bin/bench linear --shape n=4,in=5,out=3 --pass forward --impl custom_naive "
                  "--once --quiet"));
}

TEST_F(KernelTools, BoundsAreCountedOfTheCallsOwnPass) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "3"}}, .x = {{{4, 5}}}});
  const std::string ncu = tool(
      "ncu",
      "echo \"$@\" > \"${0%/*}/call.txt\"\n"
      "echo 'linear custom_naive: ran once'\n"
      "echo '\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"'\n"
      "echo '\"0\",\"naive(int)\",\"lts__throughput.avg.pct_of_peak_sustained_elapsed\",\"81\"'\n");
  const auto bounds =
      find_bounds({{layer.get(), Pass::kBackwardData, "custom_naive"}}, ncu, "/bin/bench", out_);
  EXPECT_EQ(bounds, std::vector<std::string>{"L2, 81% of its peak"});
  EXPECT_TRUE(has(out_.str(), "linear n=4,in=5,out=3 backward_data custom_naive: L2, 81%"));
  EXPECT_TRUE(
      has(folder_.read("call.txt"),
          "--csv --print-units base --nvtx --nvtx-include once "
          "backward_data/ --metrics gpu__time_duration.sum,",
          "/bin/bench linear --shape n=4,in=5,out=3 --pass backward_data --impl custom_naive "
          "--once"));
}

TEST_F(KernelTools, NcuThatFailsIsToldInItsWords) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "3"}}, .x = {{{4, 5}}}});
  const std::string ncu = tool("ncu", "echo '==ERROR== ERR_NVGPUCTRPERM'\n");
  EXPECT_TRUE(
      has(error_of<RunError>([&] {
            profile_calls({{layer.get(), Pass::kForward, "custom_naive"}}, ncu, "/bin/bench", out_);
          }),
          "did not finish", "ERR_NVGPUCTRPERM"));
}

TEST_F(KernelTools, MachineCodeIsThatOfTheLaunchesAskedFor) {
  const BenchOptions options = load_relu();
  tool("cuobjdump", "echo \"$1 $2 $3\"; head -c 4 \"$4\" | tail -c 3; echo\n");
  try {
    show_machine_code(options, folder_.path().string(), out_);
  } catch (const UnsupportedError& e) {
    GTEST_SKIP() << e.what();  // without NVRTC
  }
  EXPECT_TRUE(has(out_.str(), "custom_mine for ", "compute capability ",
                  "forward, line 4: ", "-sass -fun ", "ELF"))
      << out_.str();

  BenchOptions backward = options;
  backward.passes = {"backward"};
  EXPECT_TRUE(has(
      error_of<ConfigError>([&] { show_machine_code(backward, folder_.path().string(), out_); }),
      "no kernels of relu for these passes"));
}

TEST_F(KernelTools, MachineCodeNeedsTheTool) {
  const BenchOptions options = load_relu();
  if (fs::exists("/usr/local/cuda/bin/cuobjdump")) GTEST_SKIP() << "it is there";
  EXPECT_TRUE(has(error_of<UnsupportedError>([&] { show_machine_code(options, "/nowhere", out_); }),
                  "--sass needs NVIDIA's cuobjdump"));
}

}  // namespace
}  // namespace duet
