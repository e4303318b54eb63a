#include "train/run_folder.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <string_view>

#include "core/error.h"
#include "net/table.h"

namespace duet {
namespace fs = std::filesystem;

namespace {

std::string reason() { return errno ? std::strerror(errno) : "unknown reason"; }

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw ConfigError(folder.string() + ": cannot write to this output folder: " + why +
                    "; choose another with --out DIR");
}

// A process that was killed may have left half a line.
void drop_unfinished_line(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  std::error_code ignored;
  if (whole < text.size()) fs::resize_file(file, whole, ignored);
}

// "-20260131-235959", and "-2" after it where a second run began in that second.
bool is_time_of_run(std::string_view text) {
  constexpr std::string_view kForm = "-00000000-000000", kDigits = "0123456789";
  if (text.size() < kForm.size()) return false;
  for (size_t i = 0; i < kForm.size(); ++i) {
    const bool digit = kDigits.find(text[i]) != std::string_view::npos;
    if (kForm[i] == '-' ? text[i] != '-' : !digit) return false;
  }
  const std::string_view rest = text.substr(kForm.size());
  return rest.empty() || (rest.size() > 1 && rest[0] == '-' &&
                          rest.find_first_not_of(kDigits, 1) == std::string_view::npos);
}

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)) {
  make_folder(path_);
  std::error_code error;
  fs::create_directories(path_ / "checkpoints", error);
  if (error) refuse(path_, error.message());
  errno = 0;
  metrics_.open(path_ / "metrics.jsonl", std::ios::app);
  if (!metrics_) refuse(path_, reason());
}

void RunFolder::check_free(const fs::path& folder) {
  const fs::path last = fs::path("checkpoints") / "last.safetensors";
  for (const fs::path& file :
       {fs::path("run.json"), fs::path("config.yaml"), last,
        fs::path("checkpoints") / "best.safetensors", fs::path("metrics.jsonl"),
        fs::path("profile.json"), fs::path("trace.json")}) {
    std::error_code error;
    const auto bytes = fs::file_size(folder / file, error);
    if (error || bytes == 0) continue;
    const std::string start = folder.string() + ": holds a run already (" + file.string() + "); ";
    if (fs::exists(folder / last, error)) {
      throw ConfigError(start + "go on with it by '--resume last --out " + folder.string() +
                        "', or choose another folder with --out DIR");
    }
    throw ConfigError(start +
                      "it has no checkpoint to go on from: remove it, or choose another folder "
                      "with --out DIR");
  }
}

RunFolder RunFolder::create(const fs::path& folder) {
  check_free(folder);
  return RunFolder(folder);
}

RunFolder RunFolder::reopen(const fs::path& folder) {
  drop_unfinished_line(folder / "metrics.jsonl");
  return RunFolder(folder);
}

void RunFolder::append_metrics(const nlohmann::json& line) {
  const fs::path path = path_ / "metrics.jsonl";
  std::error_code error;
  const auto bytes = fs::file_size(path, error);
  errno = 0;
  metrics_ << json_text(line) << "\n" << std::flush;
  if (metrics_) return;
  const std::string why = reason();
  metrics_.close();
  if (!error) fs::resize_file(path, bytes, error);
  throw RunError("cannot write " + path.string() + ": " + why);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse(folder, error.message());
}

fs::path make_run_path(const std::string& name) {
  const std::time_t now = std::time(nullptr);
  char time[32];
  std::strftime(time, sizeof time, "%Y%m%d-%H%M%S", std::localtime(&now));
  const fs::path path = fs::path("runs") / (name + "-" + time);
  std::error_code error;
  fs::create_directories("runs", error);
  fs::path free = path;
  for (int i = 2; !error && !fs::create_directory(free, error); ++i) {
    free = path.string() + "-" + std::to_string(i);
  }
  if (error) refuse(free, error.message());
  return free;
}

fs::path find_last_checkpoint(const std::string& name, const fs::path& out) {
  const fs::path inside = fs::path("checkpoints") / "last.safetensors";
  std::error_code error;
  if (!out.empty()) {
    if (fs::exists(out / inside, error)) return out / inside;
    throw ConfigError("--resume last: there is no " + (out / inside).string() +
                      "; name the folder of a run with --out DIR, or leave --resume out");
  }
  fs::path newest;
  fs::file_time_type newest_time{};
  for (const auto& entry : fs::directory_iterator("runs", error)) {
    const fs::path checkpoint = entry.path() / inside;
    const std::string folder = entry.path().filename().string();
    if (!folder.starts_with(name)) continue;
    if (!is_time_of_run(folder.substr(name.size()))) continue;  // a run of "<name>-2"
    const auto time = fs::last_write_time(checkpoint, error);
    if (error) continue;  // no checkpoint in it
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
