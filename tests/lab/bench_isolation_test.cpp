// Implementations that crash, exit, hang or take all that there is: they cost bench their own times
// and no others. bench forks, which needs a process without other threads: a death test's.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "lab/bench.h"
#include "layers/activation/activation.h"
#include "support/death_test_file.h"
#include "support/double_base.h"
#include "support/new_descriptors.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

enum class End {
  kSegfault,
  kAbort,
  kExit,
  kLoop,
  kThrowInt,
  kTakesFiles,
  kDamages,
  kAsksForTooMuch,
  kWritesEverywhere,
  kRaisesTerm,
  kSignalsItsGroup,
  kStops,
  kLeavesATimer,
  kLoopsOnNeighbours
};

int* damaged = nullptr;                       // what kDamages does to all others
const NewDescriptors* descriptors = nullptr;  // of the measuring process

/// cpu_reference of ReLU that does so in its backward pass.
template <End kEnd>
class Ending : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  size_t workspace_bytes(Pass pass) const override {
    const bool much = kEnd == End::kAsksForTooMuch && pass != Pass::kForward;
    return much ? size_t{1} << 60 : sound_->workspace_bytes(pass);
  }
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    while (kEnd == End::kLoopsOnNeighbours && tensors.x[0].desc.shape[0] != 2) {
    }
    if (pass != Pass::kForward) end();
    sound_->run(pass, run, tensors);
  }

 private:
  static void write_everywhere() {
    for (const int fd : descriptors->now()) {
      [[maybe_unused]] const ssize_t written = write(fd, "a line of a kernel\n", 19);
    }
  }

  static void end() {
    static volatile uintptr_t nowhere = 8;  // compilers warn of what they know
    if (kEnd == End::kSegfault) *reinterpret_cast<volatile int*>(nowhere) = 1;
    if (kEnd == End::kAbort) std::abort();
    if (kEnd == End::kExit) std::exit(0);
    if (kEnd == End::kThrowInt) throw 7;
    if (kEnd == End::kDamages) damaged = reinterpret_cast<int*>(nowhere);
    if (kEnd == End::kRaisesTerm) raise(SIGTERM);
    if (kEnd == End::kSignalsItsGroup) kill(0, SIGINT);
    if (kEnd == End::kStops) raise(SIGSTOP);
    static bool first = true;
    if (kEnd == End::kLeavesATimer && std::exchange(first, false)) ualarm(150'000, 0);
    if (kEnd == End::kWritesEverywhere) write_everywhere();
    while (kEnd == End::kTakesFiles && open("/dev/null", O_RDONLY) >= 0) {
    }
    while (kEnd == End::kLoop && nowhere) {
    }
  }
};

class Rival : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    if (damaged) *const_cast<volatile int*>(damaged) = 1;
    sound_->run(pass, run, tensors);
  }
};

template <class Double>
std::unique_ptr<Implementation> make(const ActivationProblem& problem, Context& context) {
  return std::make_unique<Double>(make_sound(relu_impls(), "cpu_reference", problem, context));
}

template <End kEnd>
[[noreturn]] void bench() {
  const InList<ActivationProblem> listed(relu_impls(),
                                         {{"cpu_double_ends", supports_all, make<Ending<kEnd>>},
                                          {"cpu_double_rival", supports_all, make<Rival>}});
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = 256;
  setrlimit(RLIMIT_NOFILE, &files);
  setpgid(0, 0);
  descriptors = new NewDescriptors;
  BenchOptions options;
  options.problems.layer = "relu";
  options.problems.shape = "n=2,c=3";
  if (kEnd == End::kLoopsOnNeighbours) options.passes = {"backward"};
  options.device = Device::kCpu;
  options.quick = true;
  options.isolate = true;
  options.patience = std::chrono::seconds(2);
  options.out = death_test_file();
  std::ostringstream out;
  _exit(run_bench(options, out));
}

const json& arm_of(const json& row, const std::string& id) {
  return *std::find_if(row["arms"].begin(), row["arms"].end(),
                       [&](const json& arm) { return arm["implementation"] == id; });
}

/// What the backward pass of cpu_double_ends is refused for; all else was measured.
std::string only_fault(const json& results, const std::string& of = "cpu_double_ends",
                       size_t rows = 2, const std::string& kind = "failed") {
  EXPECT_FALSE(results.contains("stopped"));
  EXPECT_TRUE(results.contains("seconds"));
  EXPECT_TRUE(results["environment"].contains("ceilings"));
  EXPECT_EQ(results["rows"].size(), rows);
  for (const json& row : results["rows"]) {
    EXPECT_EQ(row["arms"].size(), 3u);
    for (const json& arm : row["arms"]) {
      const bool ends = row["pass"] == "backward" && arm["implementation"] == of;
      EXPECT_EQ(arm["agrees"], !ends) << arm;
      EXPECT_EQ(arm["us"].is_null(), ends) << arm;
    }
  }
  const json& faults = arm_of(results["rows"].back(), of)["faults"];
  EXPECT_EQ(faults.size(), 1u);
  EXPECT_EQ(faults[0]["kind"], kind);
  return faults[0]["text"];
}

class BenchIsolationDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  // AddressSanitizer ends what crashes by an exit code.
  static bool crashes() {
    struct sigaction now {};
    sigaction(SIGSEGV, nullptr, &now);
    return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
  }
  const testing::ExitedWithCode wrong_ = testing::ExitedWithCode(kExitComparison);
};

TEST_F(BenchIsolationDeathTest, ASegfaultCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kSegfault>(), wrong_, "");
  const std::string text = only_fault(take_death_test_file());
  EXPECT_TRUE(has(text, crashes() ? "crashed: SIGSEGV (an access" : "ended", "was not run again"));
}

TEST_F(BenchIsolationDeathTest, AnAbortCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kAbort>(), wrong_, "");
  const std::string text = only_fault(take_death_test_file());
  EXPECT_TRUE(has(text, crashes() ? "crashed: SIGABRT (abort()" : "", "was not run again"));
}

TEST_F(BenchIsolationDeathTest, AnExitCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kExit>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file()), "ended the process with exit code "));
}

TEST_F(BenchIsolationDeathTest, AnEndlessLoopCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kLoop>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file()), "has not ended after 2 s"));
}

TEST_F(BenchIsolationDeathTest, ANeighbourThatHangsIsNamed) {
  death_test_file();
  EXPECT_EXIT(bench<End::kLoopsOnNeighbours>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file(), "cpu_double_ends", 1),
                  "has not ended after 2 s on the neighbouring problem x="));
}

TEST_F(BenchIsolationDeathTest, WritingToAllDescriptorsCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kWritesEverywhere>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file()), "wrote to descriptors that are not its own"));
}

TEST_F(BenchIsolationDeathTest, ASignalThatItRaisesIsNoInterrupt) {
  death_test_file();
  EXPECT_EXIT(bench<End::kRaisesTerm>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file()), "ended the process by signal 15"));
}

TEST_F(BenchIsolationDeathTest, ASignalToItsGroupIsNoInterrupt) {
  death_test_file();
  EXPECT_EXIT(bench<End::kSignalsItsGroup>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file()), "ended the process by signal 2"));
}

TEST_F(BenchIsolationDeathTest, StoppingItsProcessCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kStops>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file()), "stopped the process by signal 19"));
}

// Its signal comes while the others are measured.
TEST_F(BenchIsolationDeathTest, ATimerAccusesNobodyElse) {
  death_test_file();
  EXPECT_EXIT(bench<End::kLeavesATimer>(), wrong_, "");
  EXPECT_EQ(only_fault(take_death_test_file(), "cpu_double_ends", 2, "changes the process"),
            "leaves behind, for all others: 1 timer that runs on");
}

TEST_F(BenchIsolationDeathTest, AnErrorOfAnyTypeCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kThrowInt>(), wrong_, "");
  EXPECT_EQ(only_fault(take_death_test_file()), "failed: it threw what is no std::exception");
}

TEST_F(BenchIsolationDeathTest, WhoTakesAllDescriptorsCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kTakesFiles>(), wrong_, "");
  EXPECT_TRUE(
      has(only_fault(take_death_test_file()), "leaves behind, for all others: ", " open files"));
}

TEST_F(BenchIsolationDeathTest, AWorkspaceThatNobodyHasCostsOneRow) {
  death_test_file();
  EXPECT_EXIT(bench<End::kAsksForTooMuch>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file()), "failed: takes a workspace of "));
}

// Nobody can tell who did it; the text does not hide that.
TEST_F(BenchIsolationDeathTest, ACrashThatNeedsTheOthersSaysSo) {
  if (!crashes()) GTEST_SKIP() << "needs a build without a sanitizer";
  death_test_file();
  EXPECT_EXIT(bench<End::kDamages>(), wrong_, "");
  EXPECT_TRUE(has(only_fault(take_death_test_file(), "cpu_double_rival"), "crashed: SIGSEGV",
                  "beside the others, and not alone"));
}

}  // namespace
}  // namespace duet
