#include "device/host_load.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <future>
#include <thread>

#include "device/stopwatch.h"
#include "support/busy_core.h"

namespace duet {
namespace {

// Not every system that looks like Linux does.
bool tells_waits() {
  double ran = 0, waited = 0;
  std::ifstream("/proc/self/schedstat") >> ran >> waited;
  return ran > 0 && waited > 0;
}

TEST(HostLoad, SeesOtherProcessesAndTheWaitForACore) {
  std::promise<void> end_thread;
  std::thread thread([&] {  // one that is gone by the end, with all that it ran
    for (const double end = now_seconds() + 0.2; now_seconds() < end;) {
    }
    end_thread.get_future().wait();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  HostLoad load;
  end_thread.set_value();
  thread.join();
  {
    const BusyCore core(2);
    for (const double end = now_seconds() + 0.4; now_seconds() < end;) {
    }
    const LoadReport report = load.report();
    ASSERT_TRUE(report.known);
    EXPECT_GT(report.cores, 0);
    EXPECT_GT(report.others_share * report.cores, 0.2);  // two thirds of one core
    EXPECT_LE(report.others_share, 1);
    if (tells_waits()) {
      EXPECT_GT(report.waited_share, 0.1);
    }
    EXPECT_LE(report.waited_share, 1);
    EXPECT_GE(report.load_average, 0);
  }
}

// Samples of a machine with two cores, ten seconds apart.
TEST(HostLoad, WhatTheProcessDoesItselfIsNotOthers) {
  const HostLoad::Sample start = {.busy = 100, .idle = 50, .own = 30, .threads = {{1, {20, 4}}}};
  HostLoad::Sample end = {.busy = 116, .idle = 54, .own = 40, .threads = {{1, {26, 5}}}};
  LoadReport report = HostLoad::between(start, end);
  EXPECT_TRUE(report.known);
  EXPECT_DOUBLE_EQ(report.others_share, 6.0 / 20);
  EXPECT_DOUBLE_EQ(report.waited_share, 1.0 / 7);
  end.own = 46;  // all that the cores did
  EXPECT_EQ(HostLoad::between(start, end).others_share, 0);
  end.own = 47;  // the clocks of processes and cores differ by a tick
  EXPECT_EQ(HostLoad::between(start, end).others_share, 0);
  end.own = 30;
  end.threads[2] = {0, 7};  // a new thread, which only waited
  report = HostLoad::between(start, end);
  EXPECT_DOUBLE_EQ(report.others_share, 16.0 / 20);
  EXPECT_DOUBLE_EQ(report.waited_share, 8.0 / 14);
  EXPECT_FALSE(HostLoad::between(start, start).known);
}

double own_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

TEST(HostLoad, CountsTheTimeOfThisProcess) {
  const double before = own_seconds();
  const HostLoad::Sample start = HostLoad::take();
  for (const double end = own_seconds() + 0.1; own_seconds() < end;) {
  }
  const HostLoad::Sample end = HostLoad::take();
  EXPECT_GE(end.own - start.own, 0.1);
  EXPECT_LE(end.own - start.own, own_seconds() - before + 1e-6);
}

}  // namespace
}  // namespace duet
