#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "commands.h"
#include "core/config.h"
#include "core/error.h"
#include "core/program.h"
#include "core/write_file.h"
#include "layers/layers.h"
#include "user_kernels/kernel_file.h"
#include "user_kernels/starter.h"

void new_kernel(const std::string& type, const std::string& name, duet::Device device) {
  namespace fs = std::filesystem;
  const std::vector<std::string> types = duet::starter_types();
  if (std::find(types.begin(), types.end(), type) == types.end()) {
    const std::string none = duet::find_layer_type(type) ? "there is no file to begin with for '"
                                                         : "there is no layer type '";
    throw duet::ConfigError("new-kernel: " + none + type + "'" + duet::did_you_mean(type, types) +
                            "; there are some for " + duet::join(types));
  }
  const std::string prefix = duet::id_prefix(device);
  const std::string own = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  const fs::path path = duet::kernel_file_name(type, device, own);
  if (path.has_parent_path()) throw duet::ConfigError("new-kernel: '" + name + "' is no name");
  duet::named_kernel_file(path);
  std::error_code error;
  if (fs::exists(path, error)) {
    throw duet::ConfigError("new-kernel: " + path.string() + " is there already");
  }
  duet::write_file(path, duet::starter_text(type, own, device));
  std::printf(
      "wrote %s. Check it, time it, and see both again at every save:\n"
      "  %s %s --kernels . --shape %s%s --watch\n",
      path.c_str(), duet::as_started("bench").c_str(), type.c_str(),
      duet::starter_shape(type).c_str(), device == duet::Device::kCpu ? " --device cpu" : "");
}
