// What a parent learns of a child, in the process of a death test, which has no other threads.
#include "core/child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/running.h"

namespace duet {
namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  _exit(1);
}
#define REQUIRE(condition) require(condition, #condition)

class ChildDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  const testing::ExitedWithCode done_ = testing::ExitedWithCode(0);
};

TEST_F(ChildDeathTest, SendsTextsOfAnySize) {
  const auto texts = [] {
    const InterruptGuard guard;
    std::vector<std::string> received;
    const std::string large(1'000'000, 'x');
    const ChildEnd end = run_in_child(
        [&](const Send& send) {
          for (const std::string& text : {std::string("a"), std::string(), large}) send(text);
        },
        [&](const std::string& text) { received.push_back(text); });
    REQUIRE(end.finished);
    REQUIRE(received == (std::vector<std::string>{"a", "", large}));
    _exit(0);
  };
  EXPECT_EXIT(texts(), done_, "");
}

TEST_F(ChildDeathTest, TellsHowItEnded) {
  const auto ends = [] {
    const InterruptGuard guard;
    const Send ignore = [](const std::string&) {};
    const ChildEnd exits = run_in_child(
        [](const Send&) {
          const Running running("cpu_exits", "relu", "forward");
          _exit(7);
        },
        ignore);
    REQUIRE(!exits.finished && exits.text() == "ended the process with exit code 7");
    REQUIRE(Running::last_id() == "cpu_exits" && Running::is_limited());
    const ChildEnd killed = run_in_child(
        [](const Send&) {
          if (!Running::is_limited()) kill(getpid(), SIGKILL);  // what a child before left is over
        },
        ignore);
    REQUIRE(!killed.finished && killed.text().starts_with("crashed: SIGKILL (by Linux"));
    const ChildEnd noted = run_in_child(
        [](const Send&) {
          Running::leave_note("cpu_exits took everything");
          _exit(1);
        },
        ignore);
    REQUIRE(noted.text() == "cpu_exits took everything");
    _exit(0);
  };
  EXPECT_EXIT(ends(), done_, "");
}

// Such a process may live for ever, and the pipe with it.
TEST_F(ChildDeathTest, IsNotWaitedForOnceItHasEnded) {
  const auto ends = [] {
    const InterruptGuard guard;
    int received = 0;
    pid_t left = 0;
    const ChildEnd end = run_in_child(
        [](const Send& send) {
          const pid_t own_child = fork();
          if (own_child == 0) {
            for (;;) pause();
          }
          send(std::to_string(own_child));
          send(std::string(1'000'000, 'x'));
          _exit(7);
        },
        [&](const std::string& text) {
          if (++received == 1) left = static_cast<pid_t>(std::stol(text));
        });
    REQUIRE(received == 2 && kill(left, SIGKILL) == 0);
    REQUIRE(!end.finished && end.text() == "ended the process with exit code 7");
    _exit(0);
  };
  EXPECT_EXIT(ends(), done_, "");
}

TEST_F(ChildDeathTest, IsInterruptedWithItsParent) {
  const auto interrupted = [](int signal) {
    if (signal != SIGINT) ::signal(SIGINT, SIG_IGN);  // as in the background of a script
    const InterruptGuard guard;
    const ChildEnd end = run_in_child(
        [](const Send& send) {
          send("ready");
          for (int i = 0; i < 1000 && !InterruptGuard::requested(); ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
          }
          send(InterruptGuard::requested() ? "interrupted" : "");
        },
        [signal](const std::string& text) {
          if (text == "ready") raise(signal);
          if (text != "ready") REQUIRE(text == "interrupted");
        });
    REQUIRE(end.finished);
    _exit(0);
  };
  EXPECT_EXIT(interrupted(SIGINT), done_, "");
  EXPECT_EXIT(interrupted(SIGTERM), done_, "");
}

}  // namespace
}  // namespace duet
