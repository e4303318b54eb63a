// bench --ncu and --sass with tools that only print: which calls they get, and what becomes of their words.
#include "lab/kernel_tools.h"

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

TEST_F(KernelTools, BoundsAreCountedOfEachCallsOwnPass) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "3"}}, .x = {{{4, 5}}}});
  // Fields of --nvtx as ncu prints them: quotes within are doubled.
  const std::string ncu =
      tool("ncu",
           "echo \"$@\" > \"${0%/*}/call.txt\"\n"
           "cat << 'END'\n"
           "linear custom_naive: ran once\n"
           "linear custom_tiled: ran once\n"
           "linear custom_split_k: cannot: no plan\n"
           "\"ID\",\"thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg\","
           "\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n"
           "\"0\",\"1  \"\"<default domain>:once linear n=4,in=5,out=3 forward "
           "custom_tiled:none:none:none:none:none:none\"\"\",\"tiled(int)\","
           "\"lts__throughput.avg.pct_of_peak_sustained_elapsed\",\"81\"\n"
           "\"1\",\"1  \"\"<default domain>:once linear n=4,in=5,out=3 forward "
           "custom_naive:none:none:none:none:none:none\"\"\",\"naive(int)\","
           "\"lts__throughput.avg.pct_of_peak_sustained_elapsed\",\"92\"\n"
           "END\n");
  const std::vector<ImplCall> calls = {{layer.get(), Pass::kForward, "custom_naive"},
                                       {layer.get(), Pass::kForward, "custom_tiled"},
                                       {layer.get(), Pass::kForward, "custom_split_k"}};
  EXPECT_EQ(find_bounds(calls, ncu, "/bin/bench --once", out_),
            (std::vector<std::string>{"L2, 92% of its peak", "L2, 81% of its peak", ""}));
  EXPECT_TRUE(has(out_.str(), "linear n=4,in=5,out=3 forward custom_naive: L2, 92%",
                  "custom_split_k: not counted"));
  EXPECT_TRUE(has(folder_.read("call.txt"),
                  "--csv --print-units base --clock-control none --nvtx --nvtx-include regex:once/ "
                  "--metrics gpu__time_duration.sum,",
                  "/bin/bench --once"));
  const std::vector<ImplCall> more(4, calls[0]);  // one of which has not run
  EXPECT_TRUE(has(error_of<RunError>([&] { find_bounds(more, ncu, "/bin/bench --once", out_); }),
                  "finish"));
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
  if (fs::exists("/usr/local/cuda/bin/cuobjdump"))
    GTEST_SKIP() << "needs a machine without cuobjdump";
  EXPECT_TRUE(has(error_of<UnsupportedError>([&] { show_machine_code(options, "/nowhere", out_); }),
                  "--sass needs NVIDIA's cuobjdump"));
}

}  // namespace
}  // namespace duet
