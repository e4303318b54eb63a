#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "core/error.h"
#include "data/set/dataset.h"
#include "data/set/fingerprint.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/nvrtc.h"
#include "measure/time/environment.h"
#include "net/table.h"
#include "train/version.h"
#include "user_kernels/kernel_compiler.h"

namespace {

// Whose images and labels these are, as far as they are known.
std::string identity_of(const duet::Dataset& data) {
  const std::string found = duet::fingerprint(data);
  for (const duet::DatasetType* type : duet::dataset_types()) {
    if (type->published != found) continue;
    if (type->name == data.name) return "as published";
    return "but they are those of " + std::string(type->name) + ", whose files have the same names";
  }
  if (duet::find_dataset_type(data.name)->published.empty()) return "all whole";
  return "not those published as " + data.name;
}

// What is in `folder`, read and checked.
std::string content_of(const duet::DatasetType& type, const std::string& folder) {
  duet::ConfigNode keys = duet::ConfigNode::map();
  duet::ConfigErrors errors("doctor");
  duet::ConfigReader reader(keys, "data", errors);
  try {
    const duet::Dataset data = duet::read_dataset(type, reader).load(folder);
    return folder + ": " + duet::format_count(data.train.count) + " + " +
           duet::format_count(data.validation.count) + " images, " + identity_of(data);
  } catch (const duet::DataError& error) {
    return std::string("cannot be read: ") + error.what();
  }
}

// A data set on this machine: its folder, and that in words.
struct Found {
  std::string
      folder;  // empty: there is none, or a configuration names it; "generated": it needs none
  std::string text;
};

Found find(const duet::DatasetType& type, const std::string& data) {
  if (type.keys_name_files) return {"", "files that a configuration names"};
  if (type.files.empty()) return {"generated", "generated"};
  std::vector<std::string> looked_in;
  const std::string folder = duet::find_data_folder(type.data_files(), data, &looked_in).string();
  if (folder.empty()) return {"", "not found: " + duet::join(looked_in, "; ")};
  return {folder, data.empty() ? folder : content_of(type, folder)};
}

}  // namespace

void doctor(const std::string& data, bool as_json) {
  nlohmann::json datasets = nlohmann::json::object(), findings = nlohmann::json::object();
  std::vector<std::vector<std::string>> rows = {{"Duet", duet::version_text()}};
  const std::string gpu = duet::gpu_name();
  rows.push_back({"GPU", gpu.empty() ? "none: " + duet::gpu_missing_reason() : gpu});
  nlohmann::json versions = nlohmann::json::object();
  for (const auto& [name, version] : duet::gpu::versions()) {
    rows.push_back({name, version});
    versions[name] = version;
  }
  const duet::Nvrtc* nvrtc = duet::Nvrtc::find();
  rows.push_back({"NVRTC", nvrtc ? nvrtc->version() + " (" + nvrtc->path() + ")"
                                 : "none: " + duet::Nvrtc::missing_reason()});
  if (nvrtc) versions["NVRTC"] = nvrtc->version();
  rows.push_back({"C++ compiler", duet::cpu_compiler_text()});
  for (const duet::DatasetType* type : duet::dataset_types()) {
    const std::string name(type->name);
    const Found found = find(*type, data);
    datasets[name] = found.folder;
    findings[name] = found.text;
    rows.push_back({"data set " + name, found.text});
  }
  const std::vector<std::string> warnings = duet::version_warnings(duet::gpu::versions());
  for (const std::string& warning : warnings) rows.push_back({"warning", warning});
  if (as_json) {
    std::printf("%s\n", duet::json_text({{"duet", duet::version_text()},
                                         {"gpu", gpu},
                                         {"versions", versions},
                                         {"warnings", warnings},
                                         {"datasets", datasets},
                                         {"dataset_findings", findings}})
                            .c_str());
  } else {
    std::fputs(duet::format_table(rows).c_str(), stdout);
  }
}
