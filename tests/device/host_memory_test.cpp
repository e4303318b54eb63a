#include "device/host_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "core/error.h"
#include "device/device.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

/// A root with files of one's own below /proc and /sys.
class CgroupMemory : public testing::Test {
 protected:
  CgroupMemory() {
    std::string name = (fs::temp_directory_path() / "duet-cgroup-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
    root_ = name;
  }
  ~CgroupMemory() override { fs::remove_all(root_); }

  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::optional<size_t> limit() const { return cgroup_memory_limit(root_); }

  std::optional<size_t> available() const { return available_memory(root_); }

  fs::path root_;
};

TEST_F(CgroupMemory, WithoutGroupsNothingLimits) {
  EXPECT_EQ(limit(), std::nullopt);
  write("proc/self/cgroup", "");
  EXPECT_EQ(limit(), std::nullopt);
  write("proc/self/cgroup", "nonsense\n::\n0::\n1:memory:\n");
  EXPECT_EQ(limit(), std::nullopt);
}

TEST_F(CgroupMemory, Version2TakesTheLeastOfTheGroupAndThoseAbove) {
  write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  write("sys/fs/cgroup/user.slice/job.scope/memory.max", "max\n");
  EXPECT_EQ(limit(), std::nullopt);
  write("sys/fs/cgroup/user.slice/memory.max", "2000000000\n");
  EXPECT_EQ(limit(), 2000000000u);
  write("sys/fs/cgroup/user.slice/job.scope/memory.max", "1500000000\n");
  EXPECT_EQ(limit(), 1500000000u);
  write("sys/fs/cgroup/user.slice/other.scope/memory.max", "7\n");  // another's
  EXPECT_EQ(limit(), 1500000000u);
  write("sys/fs/cgroup/memory.max", "1000000000\n");
  EXPECT_EQ(limit(), 1000000000u);
}

TEST_F(CgroupMemory, Version1HasAFolderOfItsOwn) {
  write("proc/self/cgroup", "5:devices:/\n4:cpu,memory:/docker/1234\n2:cpuacct:/\n0::/\n");
  EXPECT_EQ(limit(), std::nullopt);
  write("sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limit(), 9223372036854771712u);  // none, in its words
  write("sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "3221225472\n");
  EXPECT_EQ(limit(), 3221225472u);
}

// Which sees the path outside of it, and its own group as the root.
TEST_F(CgroupMemory, InAContainer) {
  write("proc/self/cgroup", "4:memory:/docker/1234\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(limit(), 1073741824u);
  write("proc/self/cgroup", "0::/../../docker/1234\n");
  write("sys/fs/cgroup/memory.max", "536870912\n");
  EXPECT_EQ(limit(), 536870912u);
}

TEST_F(CgroupMemory, WhatIsNoNumberLimitsNothing) {
  write("proc/self/cgroup", "0::/\n");
  for (const char* text : {"", "0\n", "-1\n", "12kB\n", "99999999999999999999999\n"}) {
    write("sys/fs/cgroup/memory.max", text);
    EXPECT_EQ(limit(), std::nullopt) << text;
  }
}

TEST_F(CgroupMemory, AvailableIsTheLeastOfTheMachinesAndTheGroups) {
  EXPECT_EQ(available(), std::nullopt);
  write("proc/meminfo",
        "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable:  4000 kB\nCached: 7 kB\n");
  EXPECT_EQ(available(), 4000u << 10);
  write("proc/self/cgroup", "0::/user.slice/job.scope\n");
  write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  write("sys/fs/cgroup/user.slice/memory.current", "999\n");
  EXPECT_EQ(available(), 4000u << 10);
  write("sys/fs/cgroup/user.slice/job.scope/memory.max", "3000000\n");
  EXPECT_EQ(available(), 3000000u);
  write("sys/fs/cgroup/user.slice/job.scope/memory.current", "2000000\n");
  EXPECT_EQ(available(), 1000000u);
  write("sys/fs/cgroup/user.slice/job.scope/memory.stat",
        "anon 1000000\nfile 900000\ninactive_file 200000\nactive_file 300000\n");
  EXPECT_EQ(available(), 1500000u);
  write("sys/fs/cgroup/user.slice/job.scope/memory.current", "4000000\n");  // over its limit
  EXPECT_EQ(available(), 0u);
}

TEST_F(CgroupMemory, AvailableInVersion1CountsTheGroupsBelow) {
  write("proc/self/cgroup", "4:memory:/docker/1234\n");
  write("sys/fs/cgroup/memory/docker/1234/memory.limit_in_bytes", "3000000\n");
  write("sys/fs/cgroup/memory/docker/1234/memory.usage_in_bytes", "2500000\n");
  write("sys/fs/cgroup/memory/docker/1234/memory.stat",
        "inactive_file 1\ntotal_inactive_file 100000\ntotal_active_file 200000\n");
  EXPECT_EQ(available(), 800000u);
}

// All that the process may ever have is more than what is free while others, and itself, run.
TEST(HostMemory, ABufferLargerThanWhatIsFreeIsRefused) {
  const auto available = available_memory();
  if (!available || *available >= host_memory())
    GTEST_SKIP() << "needs a system that tells how much memory is available";
  EXPECT_THROW(Buffer(Device::kCpu, host_memory()), OutOfMemoryError);
  EXPECT_NO_THROW(Buffer(Device::kCpu, std::min<size_t>(*available / 4, 128 << 20)));
}

TEST(HostMemory, IsWithinTheMachinesAndTheGroups) {
  const auto pages = static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  EXPECT_GT(host_memory(), 0u);
  EXPECT_LE(host_memory(), pages * page);
  EXPECT_LE(host_memory(), cgroup_memory_limit().value_or(pages * page));
}

}  // namespace
}  // namespace duet
