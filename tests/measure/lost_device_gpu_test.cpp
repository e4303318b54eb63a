// An illegal access on the GPU ends the measuring under the name of who made it. It ends all work
// of its process on the GPU, so that it is made in another one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

#include "compare/compare.h"
#include "core/error.h"
#include "core/running.h"
#include "lab/bench.h"
#include "layers/activation/activation.h"
#include "measure/time/measure_pass.h"
#include "support/case_rig.h"
#include "support/death_test_file.h"
#include "support/double_base.h"
#include "support/double_kernels.h"
#include "support/gpu_test.h"
#include "support/small_comparison.h"

namespace duet {
namespace {

class WritesNowhere : public Implementation {
 public:
  void run(Pass, const Run& run, const LayerTensors& tensors) override {
    queue_rare_fault(run.context, reinterpret_cast<uint64_t*>(16), tensors.y[0].memory);
  }
};

std::unique_ptr<Implementation> make_writer(const ActivationProblem&, Context&) {
  return std::make_unique<WritesNowhere>();
}

using InReluList = InList<ActivationProblem>;

class LostGpuDeathTest : public GpuTest {};

TEST_F(LostGpuDeathTest, NamesWhoLostItAndMeasuresNobodyElse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto lose = [] {
    const InReluList listed(relu_impls(), {{"custom_double_nowhere", supports_all, make_writer}});
    const auto layer = make_layer("relu", {.name = "lost", .x = {{{16, 20}}}});
    const CheckData check_data =
        make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
    Context context(Device::kGpu);
    try {
      measure_pass({{layer.get(), "custom_double_nowhere"}, {layer.get(), "cudnn"}}, Pass::kForward,
                   check_data, context, {});
    } catch (const UnusableProcessError& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(3);
    }
  };
  EXPECT_EXIT(lose(), testing::ExitedWithCode(3),
              "custom_double_nowhere failed: .*does nothing more");
}

// No fixture that asks for a GPU: nothing of CUDA may have been called in a process that bench
// forks.
TEST(BenchOnLostGpuDeathTest, MeasuresAllOthers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string file = death_test_file();
  const auto bench = [&] {
    const InReluList listed(relu_impls(), {{"custom_double_nowhere", supports_all, make_writer}});
    BenchOptions options;
    options.problems.layer = "relu";
    options.problems.shape = "n=16,c=20";
    options.device = Device::kGpu;
    options.impls = {"custom_double_nowhere", "cudnn"};
    options.quick = true;
    options.isolate = true;
    options.out = file;
    std::ostringstream out;
    try {
      _exit(run_bench(options, out));
    } catch (const Error& error) {
      _exit(error.exit_code());
    }
  };
  const auto ends = [](int status) {
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == kExitComparison || WEXITSTATUS(status) == kExitUnsupported);
  };
  EXPECT_EXIT(bench(), ends, "");
  const auto results = take_death_test_file();
  if (results.is_null()) GTEST_SKIP() << gpu_missing_reason();
  ASSERT_EQ(results["rows"].size(), 2u);
  for (const auto& row : results["rows"]) {
    ASSERT_EQ(row["arms"].size(), 2u);
    for (const auto& arm : row["arms"]) {
      EXPECT_EQ(arm["us"].is_null(), arm["implementation"] == "custom_double_nowhere") << arm;
    }
  }
}

/// When NowhereWhen loses the GPU: where it is alone and has no layer's name, in a network, or where a
/// network's graph is replayed.
enum class Loses { kAlone, kInNetwork, kReplayed };

template <Loses loses>
class NowhereWhen : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    sound_->run(pass, run, tensors);
    const bool in_network = Running::last().find("(layer ") != std::string::npos;
    if (in_network == (loses == Loses::kAlone)) return;
    if (loses == Loses::kReplayed && !is_capturing(run.context)) return;
    queue_rare_fault(run.context, reinterpret_cast<uint64_t*>(16), tensors.y[0].memory);
  }
  static std::unique_ptr<Implementation> make(const ActivationProblem& problem, Context& context) {
    return std::make_unique<NowhereWhen>(make_sound(relu_impls(), problem, context));
  }
};

/// The results of a comparison with such an arm, run isolated; null without a GPU.
template <Loses loses>
nlohmann::json compare_with_nowhere() {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const std::string file = death_test_file();
  const auto compare = [&] {
    const InReluList listed(relu_impls(),
                            {{"custom_double_nowhere", supports_all, NowhereWhen<loses>::make}});
    const ComparisonFolder folder;
    CompareOptions options;
    options.arms = folder.options({"cudnn", "custom_double_nowhere"});
    options.quick = true;
    options.seeds = 1;
    options.batches = {8};
    options.isolate = true;
    options.out = file;
    try {
      _exit(run_compare(options));
    } catch (const Error& error) {
      std::fprintf(stderr, "error: %s\n", error.what());
      _exit(error.exit_code());
    }
  };
  const auto ends = [](int status) {
    return WIFEXITED(status) &&
           (WEXITSTATUS(status) == kExitFailure || WEXITSTATUS(status) == kExitUnsupported);
  };
  EXPECT_EXIT(compare(), ends, "");
  return take_death_test_file();
}

TEST(CompareOnLostGpuDeathTest, MeasuresAllElse) {
  const auto results = compare_with_nowhere<Loses::kAlone>();
  if (results.is_null()) GTEST_SKIP() << gpu_missing_reason();
  const std::string stopped = results["stopped"];
  EXPECT_EQ(stopped.find("layers, relu1 forward: custom_double_nowhere failed"), 0u) << stopped;
  const auto& layers = results["layers"][0];
  for (const auto& row : layers["rows"]) {
    if (!row.contains("problem")) continue;  // no layer
    EXPECT_FALSE(row["arms"][0]["us"].is_null()) << row;
    EXPECT_EQ(row["arms"][1]["us"].is_null(), row["layer"] == "relu1") << row;
  }
  EXPECT_TRUE(layers.contains("totals"));
  EXPECT_TRUE(results.contains("training"));
  EXPECT_EQ(results["throughput"].size(), 1u);
}

TEST(CompareOnLostGpuDeathTest, NamesTheImplementationThatLostItInTheNetwork) {
  const auto results = compare_with_nowhere<Loses::kInNetwork>();
  if (results.is_null()) GTEST_SKIP() << gpu_missing_reason();
  const std::string stopped = results["stopped"];
  EXPECT_NE(stopped.find("custom_double_nowhere in relu forward (layer relu1"), std::string::npos)
      << stopped;
}

TEST(CompareOnLostGpuDeathTest, NamesTheGraphThatLostIt) {
  const auto results = compare_with_nowhere<Loses::kReplayed>();
  if (results.is_null()) GTEST_SKIP() << gpu_missing_reason();
  const std::string stopped = results["stopped"];
  EXPECT_NE(stopped.find("in the graph of"), std::string::npos) << stopped;
}

}  // namespace
}  // namespace duet
