// What implementations leave behind is found, undone and named.
#include "measure/examine/process_state.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "core/openmp.h"
#include "core/parallel.h"
#include "layers/activation/activation.h"
#include "measure/examine/examine.h"
#include "measure/time/measure_pass.h"
#include "support/case_rig.h"
#include "support/double_base.h"
#include "support/text.h"

namespace duet {
namespace {

TEST(ProcessState, SeesNothingWhereNothingChanged) {
  Context context(Device::kCpu);
  ProcessState state(context);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, RestoresTheRoundingMode) {
  Context context(Device::kCpu);
  ProcessState state(context);
  std::fesetround(FE_UPWARD);
  EXPECT_EQ(state.restore(), "another rounding mode");
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, RestoresTheWorkingFolder) {
  Context context(Device::kCpu);
  ProcessState state(context);
  const auto before = std::filesystem::current_path();
  ASSERT_EQ(chdir("/"), 0);
  EXPECT_EQ(state.restore(), "another working folder");
  EXPECT_EQ(std::filesystem::current_path(), before);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, RestoresTheCpusOfAThread) {
  Context context(Device::kCpu);
  ProcessState state(context);
  cpu_set_t before, one;
  sched_getaffinity(0, sizeof before, &before);
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "this process has one CPU";
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(state.restore(), "1 thread bound to other CPUs");
  cpu_set_t now;
  sched_getaffinity(0, sizeof now, &now);
  EXPECT_TRUE(CPU_EQUAL(&now, &before));
  EXPECT_EQ(state.restore(), "");
}

void on_alarm(int) {}

TEST(ProcessState, StopsTimersAndRestoresHandlers) {
  Context context(Device::kCpu);
  ProcessState state(context);
  struct sigaction before {
  }, now{};
  sigaction(SIGPROF, nullptr, &before);
  signal(SIGPROF, on_alarm);
  const itimerval often = {{0, 1000}, {0, 1000}};
  ASSERT_EQ(setitimer(ITIMER_PROF, &often, nullptr), 0);
  EXPECT_TRUE(has(state.restore(), "1 timer that runs on", "another handler of Profiling timer"));
  itimerval left{};
  getitimer(ITIMER_PROF, &left);
  EXPECT_EQ(left.it_value.tv_sec, 0);
  EXPECT_EQ(left.it_value.tv_usec, 0);
  sigaction(SIGPROF, nullptr, &now);
  EXPECT_EQ(now.sa_handler, before.sa_handler);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, StopsTimersThatAThreadWaitsFor) {
  if (access("/proc/self/timers", R_OK) != 0) GTEST_SKIP() << "this system does not list timers";
  Context context(Device::kCpu);
  ProcessState state(context);
  sigevent nothing{};
  nothing.sigev_notify = SIGEV_NONE;
  timer_t timer;
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &nothing, &timer), 0);
  EXPECT_EQ(state.restore(), "1 timer that runs on");
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, RestoresBlockedSignals) {
  Context context(Device::kCpu);
  ProcessState state(context);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  EXPECT_EQ(state.restore(), "other blocked signals");
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, NamesChildProcesses) {
  Context context(Device::kCpu);
  ProcessState state(context);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const pid_t orphan = fork();
    if (orphan == 0) pause();
    _exit(write(ends[1], &orphan, sizeof orphan) > 0 ? 0 : 1);  // its child is this process's then
  }
  ASSERT_GT(child, 0);
  waitpid(child, nullptr, 0);
  pid_t orphan = 0;
  ASSERT_EQ(read(ends[0], &orphan, sizeof orphan), static_cast<ssize_t>(sizeof orphan));
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(state.restore(), "1 child process");
  EXPECT_TRUE(state.is_spoilt());
  kill(orphan, SIGKILL);
  waitpid(orphan, nullptr, 0);
  EXPECT_EQ(state.restore(), "");
}

/// Where a runtime of OpenMP is, as a compiled kernel brings it.
class OpenMp : public testing::Test {
 protected:
  void SetUp() override {
    if (!dlopen("libgomp.so.1", RTLD_LAZY | RTLD_LOCAL)) GTEST_SKIP() << "there is no libgomp";
    ASSERT_GT(openmp::threads(), 0);
  }
};

TEST_F(OpenMp, RestoresTheRoundingModeOfAllThreads) {
  Context context(Device::kCpu);
  const int before = openmp::threads();
  openmp::set_threads(3);
  {
    ProcessState state(context);
    openmp::in_every_thread([](void*) { std::fesetround(FE_UPWARD); }, nullptr);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(state.restore(), "another rounding mode in OpenMP's threads");
    std::atomic<int> others = 0;
    openmp::in_every_thread(
        [](void* count) {
          *static_cast<std::atomic<int>*>(count) += std::fegetround() != FE_TONEAREST;
        },
        &others);
    EXPECT_EQ(others, 0);
    EXPECT_EQ(state.restore(), "");
  }
  openmp::set_threads(before);
}

TEST_F(OpenMp, RestoresTheNumberOfThreads) {
  Context context(Device::kCpu);
  ProcessState state(context);
  const int before = openmp::threads();
  openmp::set_threads(before + 2);
  EXPECT_EQ(state.restore(), std::to_string(before + 2) + " threads of OpenMP where there were " +
                                 std::to_string(before));
  EXPECT_EQ(openmp::threads(), before);
  EXPECT_EQ(state.restore(), "");
}

// What a loop leaves in the threads that share it is gone in the next.
TEST(SharedLoops, RoundAsTheirCaller) {
  const auto loop = [](auto body) { parallel_for(64, 64 * kWorthSharing, body); };
  loop([](int64_t) {
    std::fesetround(FE_UPWARD);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  std::fesetround(FE_TONEAREST);
  std::atomic<int> others = 0;
  loop([&](int64_t) {
    others += std::fegetround() != FE_TONEAREST;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(others, 0);
}

TEST(ProcessState, NamesOpenFiles) {
  Context context(Device::kCpu);
  ProcessState state(context);
  std::vector<int> files;
  for (int i = 0; i < 100; ++i) files.push_back(open("/dev/null", O_RDONLY));
  EXPECT_EQ(state.restore(), "100 open files");
  for (int file : files) close(file);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, AThreadThatIsAboutToEndIsNoFault) {
  Context context(Device::kCpu);
  for (int i = 0; i < 8; ++i) {  // it is not seen every time
    ProcessState state(context);
    std::atomic<bool> started = false;
    std::thread thread([&] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      started = true;
      while (std::chrono::steady_clock::now() < until) {
      }
    });
    while (!started) {
    }
    EXPECT_EQ(state.restore(), "");
    thread.join();
  }
}

TEST(ProcessState, NamesAThreadThatKeepsComputing) {
  Context context(Device::kCpu);
  ProcessState state(context);
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    while (!stop) {
    }
  });
  std::string found;  // on a machine that gives the thread its share at least once
  for (int i = 0; i < 400 && found.empty(); ++i) found = state.restore();
  EXPECT_TRUE(has(found, "a thread that keeps computing"));
  stop = true;
  thread.join();
  EXPECT_EQ(state.restore(), "");
}

enum class RudeTrick { kRounds, kThrowsInt, kThrowsForeign };

/// cpu_reference of ReLU, and a trick.
class Rude : public DoubleBase {
 public:
  Rude(RudeTrick trick, std::unique_ptr<Implementation> sound)
      : DoubleBase(std::move(sound)), trick_(trick) {}
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    sound_->run(pass, run, tensors);
    if (trick_ == RudeTrick::kRounds) std::fesetround(FE_DOWNWARD);
    if (trick_ == RudeTrick::kThrowsInt) throw 7;
    if (trick_ == RudeTrick::kThrowsForeign) throw std::range_error("beyond");
  }

 private:
  const RudeTrick trick_;
};

template <RudeTrick kTrick>
std::unique_ptr<Implementation> make_rude(const ActivationProblem& problem, Context& context) {
  return std::make_unique<Rude>(kTrick,
                                make_sound(relu_impls(), "cpu_reference", problem, context));
}

TEST(ProcessState, ExaminationsNameWhoLeavesOrThrowsWhat) {
  const InList<ActivationProblem> listed(
      relu_impls(),
      {{"cpu_double_rounds", supports_all, make_rude<RudeTrick::kRounds>},
       {"cpu_double_throws_int", supports_all, make_rude<RudeTrick::kThrowsInt>},
       {"cpu_double_throws_foreign", supports_all, make_rude<RudeTrick::kThrowsForeign>}});
  const auto layer = make_layer("relu", {.name = "rude", .x = {{{16, 20}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  Context context(Device::kCpu);
  const auto found =
      measure_pass({{layer.get(), "cpu_double_rounds"},
                    {layer.get(), "cpu_double_throws_int"},
                    {layer.get(), "cpu_double_throws_foreign"},
                    {layer.get(), "cpu_reference"}},
                   Pass::kForward, check_data, context,
                   {.timing = {.block_seconds = 1e-3, .rounds = 1, .most_rounds = 1}});
  const auto last_fault = [&](size_t i) { return found[i].examination.faults.back(); };
  ASSERT_FALSE(found[0].examination.passed());
  EXPECT_EQ(last_fault(0).kind, FaultKind::kChangesProcess) << last_fault(0).text;
  EXPECT_TRUE(has(last_fault(0).text, "another rounding mode"));
  EXPECT_EQ(last_fault(1).text, "failed: it threw what is no std::exception");
  EXPECT_EQ(last_fault(2).text, "failed: beyond");
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(found[i].warm);
  EXPECT_TRUE(found[3].examination.passed());  // the others' tricks are not its own
  EXPECT_TRUE(found[3].warm);
}

}  // namespace
}  // namespace duet
