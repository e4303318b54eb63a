#include "download.h"

#include <system_error>

#include "core/error.h"
#include "core/interrupt.h"
#include "remote_file.h"
#include "train/run/run_lock.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

bool is_archive(std::string_view name) {
  return name.ends_with(".tar.gz") || name.ends_with(".zip");
}

}  // namespace

fs::path download(const DatasetType& type, const DownloadOptions& options) {
  const std::string name(type.name);
  if (type.remote.files.empty()) {
    std::vector<std::string> published;
    for (const DatasetType* other : dataset_types()) {
      if (!other->remote.files.empty()) published.emplace_back(other->name);
    }
    throw ConfigError(name +
                      " is not published as files; what can be downloaded: " + join(published));
  }
  const fs::path folder = options.data_dir.empty() ? cache_folder(name) : options.data_dir / name;
  if (const fs::path there = find_data_folder(type.data_files(), folder); !there.empty()) {
    return there;
  }
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw RunError(folder.string() + ": cannot be made: " + failed.message());
  const InterruptGuard interrupts;
  const RunLock lock(folder);
  std::vector<std::string> mirrors = options.mirrors;
  if (mirrors.empty()) mirrors.assign(type.remote.mirrors.begin(), type.remote.mirrors.end());
  for (const PublishedFile& file : type.remote.files) {
    const std::string file_name(file.name);
    std::vector<std::string> urls;
    for (const std::string& mirror : mirrors) {
      urls.push_back(mirror + (mirror.ends_with("/") ? "" : "/") + file_name);
    }
    const fs::path path = folder / file_name;
    fetch(file, urls, path, options);
    if (!is_archive(file.name)) continue;
    unpack(path, folder);
    fs::remove(path, failed);
  }
  const fs::path there = find_data_folder(type.data_files(), folder);
  if (!there.empty()) return there;
  std::vector<std::string> looked_in;
  find_data_folder(type.data_files(), folder, &looked_in);
  throw DataError(name + ": what was downloaded is not the whole data set:\n  " +
                  join(looked_in, "\n  "));
}

}  // namespace duet
