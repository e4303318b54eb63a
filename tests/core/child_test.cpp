// What a parent learns of a child, in the process of a death test, which has no other threads.
#include "core/child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/running.h"
#include "support/new_descriptors.h"

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

/// How a child ends that does `work`; what it prints is no part of this process's standard output.
ChildEnd end_of(const std::function<void(const Send&)>& work, std::string* received = nullptr) {
  const InterruptGuard guard;
  const ChildEnd end = run_in_child(work, [&](const std::string& text) {
    if (received) *received += text;
  });
  REQUIRE(!InterruptGuard::requested());
  return end;
}

// It knows none of its own, and tries all.
TEST_F(ChildDeathTest, WritesToTheWrongDescriptorsAndIsToldFromTheRest) {
  const auto writes = [](const std::string& text) {
    std::string received;
    const NewDescriptors descriptors;
    const ChildEnd end = end_of(
        [&](const Send& send) {
          send("before ");
          for (const int fd : descriptors.now()) {
            [[maybe_unused]] const ssize_t written = write(fd, text.data(), text.size());
          }
          send("behind");
          for (;;) pause();
        },
        &received);
    REQUIRE(!end.finished && end.garbled && received == "before ");
    REQUIRE(end.text() == "wrote to descriptors that are not its own");
  };
  const auto all = [&] {
    writes("x");
    writes("{\"rows\": []}");
    writes(std::string(100'000, '\xff'));  // a size that nobody has
    writes(std::string(16, '\0'));
    _exit(0);
  };
  EXPECT_EXIT(all(), done_, "");
}

TEST_F(ChildDeathTest, ThatClosesDescriptorsIsNamed) {
  const auto closes = [] {
    const NewDescriptors descriptors;
    const ChildEnd end = end_of([&](const Send& send) {
      for (const int fd : descriptors.now()) close(fd);
      send("lost");
    });
    REQUIRE(!end.finished && end.text() == "closed descriptors that are not its own");
    _exit(0);
  };
  EXPECT_EXIT(closes(), done_, "");
}

TEST_F(ChildDeathTest, PrintsToStandardError) {
  const auto prints = [] {
    int ends[2];
    REQUIRE(pipe(ends) == 0 && dup2(ends[1], STDOUT_FILENO) >= 0);
    close(ends[1]);
    const ChildEnd end = end_of([](const Send&) {
      std::printf("a line of a kernel\n");
      std::fflush(stdout);
    });
    REQUIRE(end.finished);
    close(STDOUT_FILENO);
    char byte = 0;
    REQUIRE(read(ends[0], &byte, 1) == 0);
    _exit(0);
  };
  EXPECT_EXIT(prints(), done_, "a line of a kernel");
}

// Whatever stops it, and also behind the pipe's end.
TEST_F(ChildDeathTest, ThatStopsItselfIsEnded) {
  const auto stops = [] {
    const ChildEnd end = end_of([](const Send&) { raise(SIGSTOP); });
    REQUIRE(!end.finished && end.stop == SIGSTOP);
    REQUIRE(end.text().starts_with("stopped the process by signal "));
    const NewDescriptors descriptors;
    const ChildEnd closed = end_of([&](const Send&) {
      for (const int fd : descriptors.now()) close(fd);
      raise(SIGSTOP);  // SIGTSTP would stop nothing where the process group has no parent
    });
    REQUIRE(!closed.finished && closed.stop == SIGSTOP);
    const ChildEnd continued = end_of([](const Send& send) {
      const pid_t self = getpid();
      std::thread wakes([self] {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        kill(self, SIGCONT);
      });
      send("");
      wakes.join();
    });
    REQUIRE(continued.finished);
    _exit(0);
  };
  EXPECT_EXIT(stops(), done_, "");
}

// They are no interrupt of this process, nor of a child that somebody else interrupts.
TEST_F(ChildDeathTest, RaisesSignalsThatAreItsOwn) {
  const auto raises = [] {
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGUSR1}) {
      const ChildEnd end = end_of([signal](const Send&) { raise(signal); });
      REQUIRE(!end.finished && end.signal == signal && end.is_untimely());
      REQUIRE(end.text().starts_with("ended the process by signal "));
    }
    const ChildEnd parent = end_of([](const Send&) { kill(getppid(), SIGTERM); });
    REQUIRE(parent.finished);
    setpgid(0, 0);
    const ChildEnd group = end_of([](const Send&) { kill(0, SIGTERM); });
    REQUIRE(!group.finished && group.signal == SIGTERM);
    _exit(0);
  };
  EXPECT_EXIT(raises(), done_, "");
}

TEST_F(ChildDeathTest, ThatLeavesATimerSaysSo) {
  const auto leaves = [] {
    REQUIRE(!end_of([](const Send&) {}).timer);
    const ChildEnd end = end_of([](const Send&) { alarm(60); });
    REQUIRE(end.finished && end.timer && end.text().starts_with("leaves a timer running"));
    const ChildEnd made = end_of([](const Send&) {
      timer_t timer{};
      const itimerspec never = {.it_interval = {}, .it_value = {60, 0}};
      timer_create(CLOCK_MONOTONIC, nullptr, &timer);
      timer_settime(timer, 0, &never, nullptr);
    });
    REQUIRE(made.finished && made.timer);
    _exit(0);
  };
  EXPECT_EXIT(leaves(), done_, "");
}

TEST_F(ChildDeathTest, TellsWhereItRan) {
  const auto ends = [] {
    const ChildEnd end = end_of([](const Send&) {
      const RunningPlace place("on the neighbouring problem x=3x4");
      _exit(7);
    });
    REQUIRE(end.text() == "ended the process with exit code 7 on the neighbouring problem x=3x4");
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
