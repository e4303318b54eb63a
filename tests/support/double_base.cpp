#include "support/double_base.h"

#include <set>

namespace duet {

const std::string& double_id(Device device, const std::string& name) {
  static std::set<std::string> ids;
  return *ids.insert((device == Device::kCpu ? "cpu_double_" : "custom_double_") + name).first;
}

bool is_double(std::string_view id) { return id.find("_double_") != std::string_view::npos; }

}  // namespace duet
