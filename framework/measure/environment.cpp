#include "measure/environment.h"

#include <sys/utsname.h>

#include <fstream>
#include <regex>

#include "core/parallel.h"
#include "device/clock_monitor.h"
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

}  // namespace

Environment read_environment() {
  Environment environment;
  environment.gpu = gpu_name();
  environment.gpu_memory_bytes = gpu_memory();
  environment.driver = driver_version();
  environment.versions = gpu::versions();
  environment.cpu = find_in("/proc/cpuinfo", std::regex("^model name\\s*:\\s*(.*\\S)"));
  environment.cpu_threads = cpu_threads();
  environment.os = operating_system();
  environment.compiler = compiler();
  return environment;
}

}  // namespace duet
