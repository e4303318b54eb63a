// Closed descriptors, limits of files, signals and clocks as a process may meet them.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

using nlohmann::json;

TEST(ClosedDescriptors, LogLinesNeverRunIntoTheFilesOfARun) {
  const TrainerFolder folder;
  for (const std::vector<int>& closed : {std::vector{2}, {1, 2}, {0, 1, 2}, {0}}) {
    const std::string run = "run" + std::to_string(closed.size()) + std::to_string(closed[0]);
    const Outcome outcome =
        folder.run("--config tiny.yaml --set train.log_every=1 --out " + run, {.closed = closed});
    EXPECT_EQ(outcome.code, kExitDone);
    EXPECT_EQ(metrics(folder, run, "step").size(), 8u);  // throws at a line that is no JSON
    EXPECT_EQ(metrics(folder, run, "epoch").size(), 2u);
  }
}

TEST(ClosedDescriptors, ErrorsStillSetTheExitCode) {
  const TrainerFolder folder;
  EXPECT_EQ(folder.run("--config none.yaml", {.closed = {0, 1, 2}}).code, kExitUsage);
  for (const char* program : {DUET_COMPARE, DUET_BENCH}) {
    const TrainerFolder other(program);
    EXPECT_EQ(other.run("--config none.yaml", {.closed = {0, 1, 2}}).code, kExitUsage);
  }
  // What was asked for on standard output is lost, and that is an error.
  EXPECT_OUTCOME(folder.run("list layers", {.closed = {1}}), kExitFailure,
                 "cannot write to standard output");
}

TEST(SignalsDeathTest, OfOneMomentAreOneAndALaterOneEndsAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto interrupted_twice = [] {
    for (const int one : {SIGINT, SIGTERM, SIGHUP}) signal(one, SIG_DFL);
    const InterruptGuard guard;
    raise(SIGPIPE);  // ignored
    raise(SIGTERM);
    raise(SIGTERM);  // timeout(1) signals the process and then its group
    raise(SIGINT);
    if (!InterruptGuard::requested()) _exit(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    raise(SIGINT);
    _exit(2);
  };
  EXPECT_EXIT(interrupted_twice(), testing::KilledBySignal(SIGINT), "");
  const auto ends_in_between = [] {
    for (const int one : {SIGTERM, SIGINT}) signal(one, SIG_DFL);
    {
      const InterruptGuard guard;
      raise(SIGTERM);
      std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        kill(getpid(), SIGINT);
      }).detach();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    _exit(3);
  };
  EXPECT_EXIT(ends_in_between(), testing::ExitedWithCode(3), "");
  const auto ignored = [] {
    signal(SIGHUP, SIG_IGN);  // as under nohup
    const InterruptGuard guard;
    raise(SIGHUP);
    _exit(InterruptGuard::requested());
  };
  EXPECT_EXIT(ignored(), testing::ExitedWithCode(0), "");
}

TEST(Threads, ThatCannotBeCreatedAreDoneWithout) {
  const TrainerFolder folder;
  std::string undisturbed;
  for (const std::string most : {"64", "1", "0"}) {
    // OpenBLAS's own threads are not part of this.
    const Outcome outcome = folder.run(
        "--config tiny.yaml --epochs 1 --set data.size=48 --set layers.conv1.out_channels=32 "
        "--out threads" +
            most,
        {.environment = {"OMP_NUM_THREADS=4", "OPENBLAS_NUM_THREADS=1", "DUET_THREADS=" + most},
         .preload = DUET_PRELOAD_THREADS});
    EXPECT_OUTCOME(outcome, kExitDone, "epoch 1/1");
    const std::string last = folder.read("threads" + most + "/checkpoints/last.safetensors");
    if (undisturbed.empty()) undisturbed = last;
    EXPECT_TRUE(last == undisturbed);
  }
}

TEST(Clocks, ThatStandStillOrGoBackwardGiveNoAbsurdRates) {
  const TrainerFolder folder;
  for (const std::string how : {"frozen", "backward"}) {
    const Outcome outcome =
        folder.run("--config tiny.yaml --set train.log_every=1 --json --out " + how,
                   {.environment = {"DUET_CLOCK=" + how}, .preload = DUET_PRELOAD_CLOCK});
    EXPECT_OUTCOME(outcome, kExitDone, "  0 images/s  0.00 s");
    for (const char* event : {"step", "epoch"}) {
      for (const json& line : metrics(folder, how, event)) EXPECT_EQ(line["images_per_second"], 0);
    }
    const json summary = json::parse(outcome.out);
    EXPECT_EQ(summary["images_per_second"], 0);
    EXPECT_GE(summary["startup_seconds"], 0);
    EXPECT_GE(summary["seconds"], 0);
  }
}

}  // namespace
}  // namespace duet
