#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "data/dataset.h"
#include "device/device.h"
#include "device/gpu.h"
#include "measure/environment.h"
#include "net/table.h"
#include "train/version.h"

void doctor(const std::string& data, bool as_json) {
  nlohmann::json datasets = nlohmann::json::object();
  std::vector<std::vector<std::string>> rows = {{"Duet", duet::version_text()}};
  const std::string gpu = duet::gpu_name();
  rows.push_back({"GPU", gpu.empty() ? "none: " + duet::gpu_missing_reason() : gpu});
  nlohmann::json versions = nlohmann::json::object();
  for (const auto& [name, version] : duet::gpu::versions()) {
    rows.push_back({name, version});
    versions[name] = version;
  }
  for (const duet::DatasetType* type : duet::dataset_types()) {
    const std::string name(type->name);
    std::string where = "generated";
    if (!type->files.empty()) where = duet::find_dataset_folder(*type, data).string();
    datasets[name] = where;
    rows.push_back({"data set " + name, where.empty() ? "not found" : where});
  }
  const std::vector<std::string> warnings = duet::version_warnings(duet::gpu::versions());
  for (const std::string& warning : warnings) rows.push_back({"warning", warning});
  if (as_json) {
    std::printf("%s\n", duet::json_text({{"duet", duet::version_text()},
                                         {"gpu", gpu},
                                         {"versions", versions},
                                         {"warnings", warnings},
                                         {"datasets", datasets}})
                            .c_str());
  } else {
    std::fputs(duet::format_table(rows).c_str(), stdout);
  }
}
