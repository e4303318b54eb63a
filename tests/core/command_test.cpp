#include "core/command.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

using std::chrono::milliseconds;

TEST(Command, GivesItsCodeAndAllThatItPrints) {
  const CommandResult result = run_command("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.code, 7);
  EXPECT_EQ(result.output, "out\nerr\n");
  EXPECT_EQ(result.limit, "");
  EXPECT_EQ(run_command("kill -9 $$").code, 128 + SIGKILL);
  EXPECT_EQ(run_command("head -c 1000000 /dev/zero").output.size(), 1'000'000u);
}

// With what it has started: a compiler is a driver and what that runs.
TEST(Command, IsEndedWithAllItsProcessesAfterItsTime) {
  const TemporaryFolder folder;
  const std::string made = (folder / "late").string();
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result =
      run_command("sh -c 'echo first; sleep 2; echo x >" + made + "; sleep 60'; true",
                  {.patience = milliseconds(500)});
  EXPECT_EQ(result.limit, "has not ended after 0.5 s");
  EXPECT_EQ(result.code, 128 + SIGKILL);
  EXPECT_EQ(result.output, "first\n");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  std::this_thread::sleep_for(milliseconds(2500));
  EXPECT_EQ(folder.read("late"), "");
}

TEST(Command, IsEndedWhenItPrintsTooMuch) {
  const CommandResult result = run_command("yes", {.output_bytes = 4 << 20});
  EXPECT_EQ(result.limit, "printed more than 4 MiB");
  EXPECT_LT(result.output.size(), 8u << 20);
}

// A server that a compiler leaves behind holds the pipe open.
TEST(Command, IsNotWaitedForOnceItHasEnded) {
  const auto start = std::chrono::steady_clock::now();
  const CommandResult result = run_command("echo done; sleep 60 &");
  EXPECT_EQ(result.output, "done\n");
  EXPECT_EQ(result.code, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

TEST(Command, EndsSoonAfterAnInterrupt) {
  const InterruptGuard guard;
  std::jthread user([] {
    std::this_thread::sleep_for(milliseconds(200));
    raise(SIGINT);
  });
  EXPECT_THROW(run_command("sleep 60"), InterruptedError);
}

}  // namespace
}  // namespace duet
