#include "device/cpu.h"

#include <fstream>
#include <string_view>

namespace duet {
namespace {

// The lines of the first processor in /proc/cpuinfo whose name is one of `names`.
std::string lines_of(std::initializer_list<std::string_view> names) {
  std::ifstream file("/proc/cpuinfo");
  std::string text;
  for (std::string line; std::getline(file, line) && !line.empty();) {
    const std::string name = line.substr(0, line.find_last_not_of("\t ", line.find(':') - 1) + 1);
    for (const std::string_view each : names) {
      if (name == each) text += line + "\n";
    }
  }
  return text;
}

}  // namespace

std::string cpu_name() {
  const std::string line = lines_of({"model name"});
  const size_t begin = line.find_first_not_of("\t ", line.find(':') + 1);
  if (line.empty() || begin == std::string::npos) return "";
  return line.substr(begin, line.find_last_not_of("\t \n") + 1 - begin);
}

std::string cpu_features() {
  return lines_of({"model name", "flags", "CPU implementer", "CPU part", "Features", "isa", "cpu"});
}

}  // namespace duet
