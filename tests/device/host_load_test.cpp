#include "device/host_load.h"

#include <gtest/gtest.h>

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

TEST(HostLoad, WhatTheProcessDoesItselfIsNotOthers) {
  const HostLoad load;
  for (const double end = now_seconds() + 0.3; now_seconds() < end;) {
  }
  const LoadReport report = load.report();
  ASSERT_TRUE(report.known);
  // Others may take all the other cores, and what they take of this one is waited for.
  const double cores = report.cores;
  EXPECT_LE(report.others_share, (cores - 1 + report.waited_share + 0.2) / cores);
}

}  // namespace
}  // namespace duet
