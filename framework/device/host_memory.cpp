#include "device/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <string>

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

// The least limit of the group at `path` below `mount` and of those above it. In a container the
// path may be that outside of it: the container's own group is the mount itself then.
std::optional<size_t> least_limit(const fs::path& mount, const std::string& path,
                                  const std::string& file) {
  std::optional<size_t> least;
  for (fs::path group = fs::path(path).lexically_normal().relative_path();;
       group = group.parent_path()) {
    if (const auto limit = number_in(mount / group / file)) {
      least = std::min(*limit, least.value_or(*limit));
    }
    if (group.empty()) return least;
  }
}

bool holds_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

}  // namespace

std::optional<size_t> cgroup_memory_limit(const fs::path& root) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::optional<size_t> least;
  std::ifstream groups(root / "proc/self/cgroup");  // lines of "NUMBER:CONTROLLERS:PATH"
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    std::optional<size_t> limit;
    if (controllers.empty()) limit = least_limit(mount, path, "memory.max");
    if (holds_word(controllers, "memory")) {
      limit = least_limit(mount / "memory", path, "memory.limit_in_bytes");
    }
    if (limit) least = std::min(*limit, least.value_or(*limit));
  }
  return least;
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
