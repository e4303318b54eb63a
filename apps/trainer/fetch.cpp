#include <spdlog/spdlog.h>

#include <iostream>

#include "commands.h"
#include "core/config.h"
#include "core/error.h"
#include "device/stopwatch.h"
#include "download.h"
#include "train/run/progress.h"

void fetch_dataset(const std::string& name, const std::string& data,
                   const std::vector<std::string>& mirrors) {
  const duet::DatasetType* type = duet::find_dataset_type(name);
  if (!type) {
    std::vector<std::string> names;
    for (const duet::DatasetType* each : duet::dataset_types()) {
      if (!each->remote.files.empty()) names.emplace_back(each->name);
    }
    throw duet::ConfigError("'" + name + "' is no data set; what can be downloaded: " +
                            duet::join(names) + duet::did_you_mean(name, names));
  }
  duet::Progress progress(spdlog::should_log(spdlog::level::info));
  std::string current;
  duet::Elapsed watch;
  int64_t first = 0;
  double told = 0.0;
  duet::DownloadOptions options{data, mirrors, {}};
  options.progress = [&](const std::string& file, int64_t done, int64_t total) {
    if (file != current) {
      current = file;
      watch = {};
      first = done, told = 0.0;
      if (!progress.active()) spdlog::info("{}: {} bytes", file, total);
    }
    const double seconds = watch.seconds();
    const double rate = seconds > 0.0 ? static_cast<double>(done - first) / seconds : 0.0;
    const std::string detail = fmt::format("MiB  {:.1f} MiB/s", rate / (1 << 20));
    if (!progress.active() && seconds - told > 10.0) {
      spdlog::info("{}: {} of {} {}", file, done >> 20, total >> 20, detail);
      told = seconds;
    }
    progress.update(file, done >> 20, total >> 20, detail,
                    rate > 0.0 ? static_cast<double>(total - done) / rate : 0.0);
  };
  const auto folder = duet::download(*type, options);
  progress.clear();
  std::cout << name << ": " << folder.string() << "\n";
}
