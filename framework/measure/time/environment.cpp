#include "measure/time/environment.h"

#include <sys/utsname.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <regex>

#include "core/parallel.h"
#include "device/clock_monitor.h"
#include "device/cpu.h"
#include "device/device.h"
#include "device/gpu.h"

namespace duet {
namespace {

// The first group of the first line of `file` that matches; empty if none does.
std::string find_in(const std::string& file, const std::regex& pattern) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    std::smatch found;
    if (std::regex_search(line, found, pattern)) return found[1];
  }
  return "";
}

std::string operating_system() {
  const std::string name = find_in("/etc/os-release", std::regex("^PRETTY_NAME=\"?([^\"]*)\"?$"));
  utsname kernel{};
  if (uname(&kernel) != 0) return name;
  return (name.empty() ? "" : name + ", ") + kernel.sysname + " " + kernel.release;
}

std::string compiler() {
#if defined(__clang__)
  return "Clang " + std::to_string(__clang_major__) + "." + std::to_string(__clang_minor__) + "." +
         std::to_string(__clang_patchlevel__);
#elif defined(__GNUC__)
  return "GCC " + std::to_string(__GNUC__) + "." + std::to_string(__GNUC_MINOR__) + "." +
         std::to_string(__GNUC_PATCHLEVEL__);
#else
  return "";
#endif
}

// The numbers of "9.14.0", to be compared one by one.
std::vector<int> numbers_of(const std::string& version) {
  std::vector<int> numbers;
  for (size_t at = 0; at < version.size();) {
    const size_t end = std::min(version.find('.', at), version.size());
    numbers.push_back(std::atoi(version.substr(at, end - at).c_str()));
    at = end + 1;
  }
  return numbers;
}

}  // namespace

std::vector<std::string> version_warnings(
    const std::vector<std::pair<std::string, std::string>>& versions) {
  static const std::regex loaded("^([0-9.]+) loaded, compiled against ([0-9.]+)(, from (.*))?$");
  static const std::regex supported("^supports CUDA ([0-9.]+)$");
  std::vector<std::string> warnings;
  std::string driver;  // the CUDA that it supports
  for (const auto& [name, text] : versions) {
    std::smatch found;
    if (text.size() > 4096) continue;  // no version; std::regex recurses
    if (std::regex_match(text, found, supported)) driver = found[1];
    if (!std::regex_match(text, found, loaded)) continue;
    const std::string now = found[1], then = found[2], from = found[4];
    if (numbers_of(now) < numbers_of(then)) {
      warnings.push_back(name + " " + now + " is loaded" + (from.empty() ? "" : " from " + from) +
                         ", older than the " + then +
                         " this program was compiled against: what is measured is " + now +
                         "; put the newer library first in LD_LIBRARY_PATH, or build again with "
                         "the older one's headers");
    }
    if (name == "CUDA runtime" && !driver.empty() && numbers_of(driver) < numbers_of(now)) {
      warnings.push_back("the driver supports CUDA " + driver + ", older than the runtime's " +
                         now + ": install a newer driver");
    }
  }
  return warnings;
}

Environment read_environment() {
  Environment environment;
  environment.gpu = gpu_name();
  environment.gpu_memory_bytes = gpu_memory();
  environment.driver = driver_version();
  environment.versions = gpu::versions();
  environment.cpu = cpu_name();
  environment.cpu_threads = cpu_threads();
  environment.os = operating_system();
  environment.compiler = compiler();
  return environment;
}

}  // namespace duet
