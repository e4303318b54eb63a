// How much of the machine's memory a process may have.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>

namespace duet {

/// Bytes that the control groups of this process leave it, as containers, systemd and batch systems
/// set them: the least of memory.max (cgroup v2) or memory.limit_in_bytes (v1) of its own group and
/// all above. Nothing if none limits it or it cannot be told. /proc and /sys are looked for below
/// `root`, the groups where Linux mounts them: in sys/fs/cgroup and, for v1, sys/fs/cgroup/memory.
std::optional<size_t> cgroup_memory_limit(const std::filesystem::path& root = "/");

/// Bytes that are free now: the least of MemAvailable of /proc/meminfo and, of the groups above,
/// the limit less what is used. The cache of files counts as free. Nothing if it cannot be told.
std::optional<size_t> available_memory(const std::filesystem::path& root = "/");

}  // namespace duet
