#include "device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>
#include <string_view>

#include "device/device.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// The number in a file; nothing for "max", or if there is no such file.
std::optional<size_t> number_in(const fs::path& file) {
  std::ifstream stream(file);
  std::string text;
  stream >> text;
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0) return {};
  return value;
}

// The files of a memory group, and the lines of its memory.stat that hold the cache of files.
struct Version {
  const char *limit, *usage, *cache[2];
};
constexpr Version kVersion1 = {
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr Version kVersion2 = {"memory.max", "memory.current", {"inactive_file", "active_file"}};

// The number after `key` in a file of lines of "KEY NUMBER ..."; 0 if there is none.
size_t value_of(const fs::path& file, std::string_view key) {
  std::ifstream stream(file);
  std::string word;
  size_t value = 0;
  while (stream >> word) {
    if (word == key && stream >> value) return value;
    stream.ignore(1 << 20, '\n');
  }
  return 0;
}

size_t less(size_t bytes, size_t taken) { return bytes - std::min(bytes, taken); }

std::optional<size_t> limit_of(const fs::path& group, const Version& version) {
  return number_in(group / version.limit);
}

// The limit less what the group holds, but for what Linux drops when somebody needs the memory.
std::optional<size_t> left_in(const fs::path& group, const Version& version) {
  const auto limit = limit_of(group, version);
  if (!limit) return {};
  size_t cache = 0;
  for (const char* key : version.cache) cache += value_of(group / "memory.stat", key);
  return less(*limit, less(number_in(group / version.usage).value_or(0), cache));
}

using OfGroup = std::optional<size_t>(const fs::path& group, const Version& version);

std::optional<size_t> least(std::optional<size_t> a, std::optional<size_t> b) {
  return a && b ? std::min(a, b) : a ? a : b;
}

// The least of the group at `path` below `mount` and of those above it. In a container the path may
// be that outside of it: the container's own group is the mount itself then.
std::optional<size_t> least_above(const fs::path& mount, const std::string& path,
                                  const Version& version, OfGroup* of_group) {
  std::optional<size_t> found;
  for (fs::path group = fs::path(path).lexically_normal().relative_path();;
       group = group.parent_path()) {
    found = least(found, of_group(mount / group, version));
    if (group.empty()) return found;
  }
}

bool holds_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

// Of the groups of this process and all above.
std::optional<size_t> least_of_groups(const fs::path& root, OfGroup* of_group) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::optional<size_t> found;
  std::ifstream groups(root / "proc/self/cgroup");  // lines of "NUMBER:CONTROLLERS:PATH"
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) found = least(found, least_above(mount, path, kVersion2, of_group));
    if (holds_word(controllers, "memory")) {
      found = least(found, least_above(mount / "memory", path, kVersion1, of_group));
    }
  }
  return found;
}

}  // namespace

std::optional<size_t> cgroup_memory_limit(const fs::path& root) {
  return least_of_groups(root, limit_of);
}

std::optional<size_t> available_memory(const fs::path& root) {
  const size_t kib = value_of(root / "proc/meminfo", "MemAvailable:");
  return least(kib ? std::optional(kib << 10) : std::nullopt, least_of_groups(root, left_in));
}

size_t host_memory() {
  static const size_t bytes = [] {
    const size_t all =
        static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
    return std::min(all, cgroup_memory_limit().value_or(all));
  }();
  return bytes;
}

}  // namespace duet
