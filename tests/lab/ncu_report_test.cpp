#include "lab/ncu_report.h"

#include <gtest/gtest.h>

#include "support/text.h"

namespace duet {
namespace {

// As `ncu --csv --print-units base` prints it, with numbers made up: a line for each launch and metric.
constexpr const char* kHead =
    R"csv(==PROF== Connected to process 77
==PROF== Profiling "softmax_forward_kernel" - 0: 0%....50%....100% - 9 passes
softmax x=49152x512 forward custom_online: ran once
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
)csv";

struct Launch {
  std::string name;
  double ns, sm, dram, l2, l1, loads, barrier;
};

std::string csv(const std::vector<Launch>& launches) {
  std::string text = kHead;
  for (size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[i];
    const auto add = [&](const std::string& metric, const std::string& value) {
      text += "\"" + std::to_string(i) + "\",\"77\",\"bench\",\"127.0.0.1\",\"" + launch.name +
              "\",\"1\",\"7\",\"(256, 1, 1)\",\"(16, 1, 1)\",\"0\",\"9.0\",\"Command line profiler "
              "metrics\",\"" +
              metric + "\",\"unit\",\"" + value + "\"\n";
    };
    add("gpu__time_duration.sum", "1," + std::to_string(100 + static_cast<int>(launch.ns)));
    add("sm__throughput.avg.pct_of_peak_sustained_elapsed", std::to_string(launch.sm));
    add("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", std::to_string(launch.dram));
    add("lts__throughput.avg.pct_of_peak_sustained_elapsed", std::to_string(launch.l2));
    add("l1tex__throughput.avg.pct_of_peak_sustained_active", std::to_string(launch.l1));
    add("smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
        std::to_string(launch.loads));
    add("smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio",
        std::to_string(launch.barrier));
    add("smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "n/a");
  }
  return text;
}

std::string bound(const std::vector<Launch>& launches) {
  return bound_by(read_ncu_csv(csv(launches)), 1e6);
}

TEST(NcuReport, ReadsEachLaunchWithItsMetrics) {
  const auto kernels =
      read_ncu_csv(csv({{"void first<float, 4>(const float *, float *)", 7, 20, 91, 40, 30, 5, 1},
                        {"second(int)", 8, 21, 92, 41, 31, 6, 2}}));
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "void first<float, 4>(const float *, float *)");
  EXPECT_EQ(kernels[1].name, "second(int)");
  EXPECT_EQ(kernels[0].metrics.at("gpu__time_duration.sum"), 1107);
  EXPECT_EQ(kernels[1].metrics.at("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"), 92);
  EXPECT_EQ(kernels[0].metrics.size(), 7u);  // but for the one that is n/a
  EXPECT_EQ(read_ncu_csv("==ERROR== ERR_NVGPUCTRPERM\n").size(), 0u);
  EXPECT_EQ(read_ncu_csv("").size(), 0u);
}

TEST(NcuReport, AsksForEveryMetricThatItReads) {
  EXPECT_TRUE(
      has(bound_metrics(),
          "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,sm__throughput.avg.",
          ",gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed,", "_barrier_per_issue"));
  EXPECT_EQ(bound_metrics().find(' '), std::string::npos);
}

TEST(NcuReport, KernelsBelongToTheRangeOfTheWholeName) {
  const std::vector<ProfiledKernel> kernels = {
      {"first", {}, "1  <default domain>:once forward custom_wgmma_halo:none:none:none"},
      {"second", {}, "1  <default domain>:once forward custom_wgmma:none:none:none"},
      {"third", {}, ""}};
  const auto inside = kernels_in("once forward custom_wgmma", kernels);
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_EQ(inside[0].name, "second");
}

TEST(NcuReport, TheBusiestUnitBinds) {
  EXPECT_EQ(bound({{"kernel", 1, 20, 91.4, 40, 30, 5, 1}}), "DRAM, 91% of its peak");
  EXPECT_EQ(bound({{"kernel", 1, 75, 10, 40, 30, 5, 1}}), "arithmetic and issue, 75% of its peak");
  EXPECT_EQ(bound({{"kernel", 1, 20, 10, 40, 80, 5, 1}}), "L1 and shared memory, 80% of its peak");
  EXPECT_EQ(bound({{"kernel", 1, 20, 10, 60, 59, 5, 1}}), "L2, 60% of its peak");
}

TEST(NcuReport, WhereNoUnitIsBusyItIsLatency) {
  EXPECT_EQ(
      bound({{"kernel", 1, 20, 10, 41, 30, 5, 1}}),
      "latency: warps wait for loads from memory; the busiest unit, L2, is at 41% of its peak");
  EXPECT_EQ(bound({{"kernel", 1, 20, 10, 41, 30, 1, 5}}),
            "latency: warps wait for a barrier; the busiest unit, L2, is at 41% of its peak");
}

TEST(NcuReport, OfSeveralLaunchesTheLongestCounts) {
  EXPECT_EQ(bound({{"void duet::first_kernel<float>(int)", 5, 20, 91, 40, 30, 5, 1},
                   {"void duet::product_kernel<float, 4>(int)", 9, 88, 10, 40, 30, 5, 1}}),
            "arithmetic and issue, 88% of its peak (`product_kernel`, the longest of 2 launches)");
}

TEST(NcuReport, WhatWasNotCountedBindsNothing) {
  EXPECT_EQ(bound_by({}, 1e6), "");
  EXPECT_EQ(bound_by({{"kernel", {{"gpu__time_duration.sum", 5.0}}, ""}}, 1e6), "");
}

TEST(NcuReport, TheBytesOfAllLaunchesStandBesideTheLeast) {
  const std::string l2 = "lts__throughput.avg.pct_of_peak_sustained_elapsed";
  const std::vector<ProfiledKernel> launches = {
      {"first", {{l2, 80.0}, {kDramRead, 1e6}, {kDramWritten, 2e5}}, ""},
      {"second", {{l2, 70.0}, {kDramRead, 3e5}}, ""}};
  EXPECT_EQ(bound_by({launches[0]}, 1e6),
            "L2, 80% of its peak; DRAM moves 1.20 times the least bytes");
  EXPECT_TRUE(has(bound_by(launches, 1e6), "DRAM moves 1.50 times"));
  EXPECT_EQ(bound_by({launches[0]}, 0), "L2, 80% of its peak");
}

// As Nsight Compute prints it.
constexpr const char* kCsv =
    R"csv(==PROF== Connected to process 77
relu forward custom_puzzle ran once
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"
"0","77","bench","127.0.0.1","forward(const float *, float *)","1","7","(256, 1, 1)","(16, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","1,048,576"
"0","77","bench","127.0.0.1","forward(const float *, float *)","1","7","(256, 1, 1)","(16, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_write.sum","byte","512"
"1","77","bench","127.0.0.1","second(const float *, float *)","1","7","(256, 1, 1)","(16, 1, 1)","0","9.0","Command line profiler metrics","dram__bytes_read.sum","byte","1,000"
)csv";

TEST(NcuReport, SumsAMetricOverAllKernels) {
  EXPECT_EQ(sum_of_metric(read_ncu_csv(kCsv), "dram__bytes_read.sum"), 1049576);
  EXPECT_EQ(sum_of_metric(read_ncu_csv(kCsv), "dram__bytes_write.sum"), 512);
  EXPECT_EQ(sum_of_metric(read_ncu_csv(kCsv), "other"), 0);
  EXPECT_EQ(sum_of_metric({}, "dram__bytes_read.sum"), 0);
}

}  // namespace
}  // namespace duet
