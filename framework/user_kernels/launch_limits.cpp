#include "user_kernels/launch_limits.h"

namespace duet {
namespace {

constexpr int64_t kMostThreads = 1024, kRegisters = 65536, kMostStaticShared = 48 << 10;

// Shared memory that a block may have, by compute capability (CUDA's programming guide).
int64_t most_shared(int capability) {
  if (capability < 80) return 64 << 10;
  if (capability == 80 || capability == 87) return 163 << 10;
  if (capability < 90 || capability >= 120) return 99 << 10;
  return 227 << 10;
}

std::string by(const int64_t (&v)[3]) {
  return std::to_string(v[0]) + " x " + std::to_string(v[1]) + " x " + std::to_string(v[2]);
}

bool within(const int64_t (&v)[3], int64_t x, int64_t y, int64_t z) {
  return v[0] >= 1 && v[1] >= 1 && v[2] >= 1 && v[0] <= x && v[1] <= y && v[2] <= z;
}

std::string beyond_shared_memory(const LaunchRow& row, const KernelLaunch& launch, int capability) {
  const auto fixed = static_cast<int64_t>(launch.static_shared);
  if (fixed > kMostStaticShared) {
    return "declares " + std::to_string(fixed) + " bytes of shared memory, and more than " +
           std::to_string(kMostStaticShared) +
           " must be extern __shared__ and stand behind the block in DUET_LAUNCH";
  }
  const int64_t most = most_shared(capability);
  if (row.shared >= 0 && row.shared <= most - fixed) return "";
  return "takes " + std::to_string(row.shared) + " bytes of shared memory beside the " +
         std::to_string(fixed) + " that the kernel declares; a block of compute capability " +
         std::to_string(capability / 10) + "." + std::to_string(capability % 10) + " has " +
         std::to_string(most);
}

}  // namespace

std::string beyond_limits(const LaunchRow& row, const KernelLaunch& launch, int capability) {
  if (!within(row.grid, 0x7fffffff, 65535, 65535)) {
    return "launches a grid of " + by(row.grid) +
           " blocks; from 1 to 2147483647 x 65535 x 65535 are possible";
  }
  if (!within(row.block, 1024, 1024, 64) ||
      row.block[0] * row.block[1] * row.block[2] > kMostThreads) {
    return "launches blocks of " + by(row.block) +
           " threads; from 1 to 1024 x 1024 x 64 are possible, and 1024 in all";
  }
  const std::string shared = beyond_shared_memory(row, launch, capability);
  if (!shared.empty()) return shared;
  // Registers are given to warps, eight a thread at a time.
  const int64_t threads = (row.block[0] * row.block[1] * row.block[2] + 31) / 32 * 32;
  const int64_t registers = (launch.registers + 7) / 8 * 8;
  if (threads * registers <= kRegisters) return "";
  return "takes " + std::to_string(launch.registers) + " registers in each of " +
         std::to_string(threads) + " threads; a block has " + std::to_string(kRegisters) +
         ": launch fewer threads, or write __launch_bounds__(" + std::to_string(threads) +
         ") before the kernel";
}

}  // namespace duet
