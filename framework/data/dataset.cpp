#include "data/dataset.h"

#include <algorithm>
#include <cstdlib>

#include "data/dataset_types.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// An unset variable and an empty one are the same to us.
fs::path environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<fs::path> candidate_folders(const DatasetType& type, const fs::path& data_dir) {
  if (!data_dir.empty()) return {data_dir / type.name, data_dir};
  std::vector<fs::path> folders;
  if (const fs::path data = environment_path("DUET_DATA"); !data.empty()) {
    folders.push_back(data / type.name);  // not `data` itself: MNIST's files have the same names
  }
  std::string system_name(type.name);
  std::replace(system_name.begin(), system_name.end(), '_', '-');
  folders.push_back(fs::path("/usr/share/datasets") / system_name);
  if (const fs::path cache = environment_path("XDG_CACHE_HOME"); !cache.empty()) {
    folders.push_back(cache / "duet" / type.name);
  } else if (const fs::path home = environment_path("HOME"); !home.empty()) {
    folders.push_back(home / ".cache" / "duet" / type.name);
  }
  return folders;
}

// What keeps `folder` from being used; empty if nothing does.
std::string missing_in(const fs::path& folder, const std::vector<std::string>& files) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return "no such folder";
  std::vector<std::string> missing;
  for (const std::string& file : files) {
    if (!fs::exists(folder / file, ignored) && !fs::exists(folder / (file + ".gz"), ignored)) {
      missing.push_back(file + "[.gz]");
    }
  }
  return missing.empty() ? "" : "it has no " + join(missing);
}

}  // namespace

const std::vector<const DatasetType*>& dataset_types() {
  static const std::vector<const DatasetType*> types = {
      &fashion_mnist_type(),
      &mnist_type(),
      &synthetic_images_type(),
  };
  return types;
}

std::vector<std::string> numbered_classes(int64_t classes) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

const DatasetType* find_dataset_type(std::string_view name) {
  for (const DatasetType* type : dataset_types()) {
    if (type->name == name) return type;
  }
  return nullptr;
}

fs::path find_dataset_folder(const DatasetType& type, const fs::path& data_dir,
                             std::vector<std::string>* looked_in) {
  if (type.files.empty()) return {};
  for (const fs::path& folder : candidate_folders(type, data_dir)) {
    const std::string missing = missing_in(folder, type.files);
    if (missing.empty()) return folder;
    if (looked_in) looked_in->push_back(folder.string() + ": " + missing);
  }
  return {};
}

}  // namespace duet
