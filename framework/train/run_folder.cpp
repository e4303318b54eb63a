#include "train/run_folder.h"

#include <cerrno>
#include <cstring>
#include <ctime>

#include "core/error.h"

namespace duet {
namespace fs = std::filesystem;

namespace {

std::string reason() { return errno ? std::strerror(errno) : "cannot be written"; }

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  std::error_code error;
  fs::create_directories(path_ / "checkpoints", error);
  if (error) {
    throw ConfigError(path_.string() + ": cannot make this output folder: " + error.message() +
                      "; choose another with --out DIR");
  }
  errno = 0;
  metrics_.open(path_ / "metrics.jsonl", std::ios::app);
  if (!metrics_) {
    throw ConfigError(path_.string() + ": cannot write to this output folder: " + reason() +
                      "; choose another with --out DIR");
  }
}

RunFolder RunFolder::create(const fs::path& folder) {
  if (fs::exists(folder / "run.json")) {
    throw ConfigError(folder.string() +
                      ": holds a run already; go on with it by '--resume last', or choose another "
                      "folder with --out DIR");
  }
  return RunFolder(folder);
}

RunFolder RunFolder::reopen(const fs::path& folder) { return RunFolder(folder); }

void RunFolder::write(const std::string& name, const std::string& text) const {
  errno = 0;
  std::ofstream file(path_ / name, std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw RunError((path_ / name).string() + ": " + reason());
}

void RunFolder::append_metrics(const nlohmann::json& line) {
  errno = 0;
  metrics_ << line.dump() << "\n" << std::flush;
  if (!metrics_) throw RunError((path_ / "metrics.jsonl").string() + ": " + reason());
}

fs::path new_run_path(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", std::localtime(&now));
  const fs::path path = fs::path("runs") / (name + "-" + time);
  fs::path free = path;
  for (int i = 2; fs::exists(free); ++i) free = path.string() + "-" + std::to_string(i);
  return free;
}

fs::path find_last_checkpoint(const std::string& name, const fs::path& out) {
  const fs::path inside = fs::path("checkpoints") / "last.safetensors";
  if (!out.empty()) {
    if (fs::exists(out / inside)) return out / inside;
    throw ConfigError("--resume last: there is no " + (out / inside).string());
  }
  fs::path newest;
  fs::file_time_type newest_time{};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("runs", error)) {
    const fs::path checkpoint = entry.path() / inside;
    if (!entry.path().filename().string().starts_with(name + "-") || !fs::exists(checkpoint)) {
      continue;
    }
    const auto time = fs::last_write_time(checkpoint);
    if (newest.empty() || time > newest_time) {
      newest = checkpoint;
      newest_time = time;
    }
  }
  if (newest.empty()) {
    throw ConfigError("--resume last: no run of '" + name +
                      "' with a checkpoint in runs/; name the run with --out DIR or the file with "
                      "--resume CKPT");
  }
  return newest;
}

}  // namespace duet
