// A crash, an abort, a lost GPU and a later Ctrl-C tell which implementation ran, and leave the
// results so far.
#include "core/running.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "compare/results/outputs.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "lab/bench.h"
#include "layers/activation/activation.h"
#include "support/death_test_file.h"
#include "support/double_base.h"

namespace duet {
namespace {

// AddressSanitizer does.
bool others_handle_crashes() {
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  return (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL;
}

enum class CrashEnd { kCrash, kLostDevice };

/// cpu_reference of ReLU that ends so in its backward pass.
template <CrashEnd kEnd>
class CrashEnding : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    if (pass != Pass::kForward) {
      if (kEnd == CrashEnd::kLostDevice) throw UnusableProcessError("cpu_double_ends failed");
      static volatile uintptr_t nowhere = 8;  // compilers warn of what they know
      *reinterpret_cast<volatile int*>(nowhere) = 1;
    }
    sound_->run(pass, run, tensors);
  }
};

template <CrashEnd kEnd>
std::unique_ptr<Implementation> make_ending(const ActivationProblem& problem, Context& context) {
  return std::make_unique<CrashEnding<kEnd>>(
      make_sound(relu_impls(), "cpu_reference", problem, context));
}

/// bench, whose second row ends so.
template <CrashEnd kEnd>
void bench_that_ends(const std::string& file) {
  const InList<ActivationProblem> listed(relu_impls(),
                                         {{"cpu_double_ends", supports_all, make_ending<kEnd>}});
  BenchOptions options;
  options.problems.layer = "relu";
  options.problems.shape = "n=2,c=3";
  options.device = Device::kCpu;
  options.quick = true;
  options.impls = {"cpu_double_ends", "cpu_reference"};
  options.out = file;
  std::ostringstream out;
  EXPECT_THROW(run_bench(options, out), UnusableProcessError);
}

class RunningDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    if (others_handle_crashes()) GTEST_SKIP() << "needs a build without a sanitizer";
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

TEST_F(RunningDeathTest, ACrashNamesTheImplementationAndKeepsTheRowsBefore) {
  const std::string file = death_test_file();
  const auto crash = [&] {
    name_crashes();
    bench_that_ends<CrashEnd::kCrash>(file);
  };
  EXPECT_EXIT(crash(), testing::KilledBySignal(SIGSEGV),
              "error: cpu_double_ends in relu backward crashed: SIGSEGV");
  const auto results = take_death_test_file();
  ASSERT_EQ(results["rows"].size(), 1u);
  EXPECT_EQ(results["rows"][0]["pass"], "forward");
  EXPECT_EQ(results["stopped"],
            "the program ended without a word while relu x=2x3 backward was measured");
}

TEST_F(RunningDeathTest, AnAbortOutsideNamesTheLastOne) {
  const auto abort_after = [] {
    name_crashes();
    { const Running running("custom_mine", "conv2d", "backward_data", "conv1"); }
    std::abort();
  };
  EXPECT_EXIT(abort_after(), testing::KilledBySignal(SIGABRT),
              "error: crashed: SIGABRT.*; custom_mine in conv2d backward_data \\(layer conv1\\) "
              "ran last");
}

TEST_F(RunningDeathTest, ALaterCtrlCNamesWhatHangs) {
  const auto hang = [] {
    const InterruptGuard guard;
    const Running running("custom_mine", "conv2d", "forward");
    raise(SIGINT);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    raise(SIGINT);
  };
  EXPECT_EXIT(hang(), testing::KilledBySignal(SIGINT),
              "ended while custom_mine in conv2d forward ran");
}

TEST_F(RunningDeathTest, ASignalThatSomebodyHandlesStaysTheirs) {
  const auto handled = [] {
    signal(SIGFPE, [](int) { _exit(7); });
    name_crashes();
    raise(SIGFPE);
  };
  EXPECT_EXIT(handled(), testing::ExitedWithCode(7), "");
}

TEST(Running, ALostGpuEndsTheMeasuringAndBlamesNobodyElse) {
  bench_that_ends<CrashEnd::kLostDevice>(death_test_file());
  const auto results = take_death_test_file();
  ASSERT_EQ(results["rows"].size(), 1u);
  EXPECT_EQ(results["stopped"], "cpu_double_ends failed");
}

TEST(Running, AnErrorOfTheDeviceNamesWhoRanLast) {
  { const Running running("custom_mine", "conv2d", "forward", std::string(500, 'x')); }
  EXPECT_EQ(Running::last().find("custom_mine in conv2d forward (layer xxx"), 0u);
  { const Running running("arm mine", "the graph of", "a training step"); }
  try {
    throw DeviceError("cudaErrorSomething");
  } catch (...) {
    EXPECT_EQ(message_of(named_error()),
              "cudaErrorSomething (arm mine in the graph of a training step ran last)");
  }
  try {
    throw RunError("the disk is full");
  } catch (...) {
    EXPECT_EQ(message_of(named_error()), "the disk is full");
  }
}

}  // namespace
}  // namespace duet
