#include "train/run/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <sstream>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/input_file.h"
#include "net/json_file.h"
#include "net/table.h"

namespace duet {
namespace fs = std::filesystem;

namespace {

constexpr size_t kMostLineBytes = 4096;  // of metrics; longer ones no run has written
constexpr uint64_t kMostMetricsBytes = uint64_t{1} << 30;

[[noreturn]] void refuse(const fs::path& folder, const std::string& why,
                         const std::string& what_to_do = "choose") {
  throw ConfigError(folder.string() + ": cannot write to this output folder: " + why + "; " +
                    what_to_do + " another with --out DIR");
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) refuse(folder, error.message());
}

// Every file that a run or a profile writes.
std::vector<fs::path> files_of_a_run() {
  const fs::path checkpoints = "checkpoints";
  return {"run.json",
          "config.yaml",
          checkpoints / "last.safetensors",
          checkpoints / "best.safetensors",
          "metrics.jsonl",
          "evaluation.json",
          "profile.json",
          "trace.json"};
}

// The first that is there of a run's checkpoints.
fs::path first_of(const fs::path& folder, const std::vector<const char*>& names) {
  std::error_code error;
  for (const char* name : names) {
    const fs::path checkpoint = folder / "checkpoints" / name;
    if (fs::exists(checkpoint, error)) return checkpoint;
  }
  return {};
}

// What --resume last means in a run's folder. A run that was killed in its first epoch's end may
// have the best checkpoint alone.
fs::path checkpoint_in(const fs::path& folder) {
  return first_of(folder, {"last.safetensors", "best.safetensors"});
}

// True if a run that stands at `position` will write this line once more.
bool lies_behind(const std::string& line, const RunPosition& position) {
  if (line.size() > kMostLineBytes) return false;
  const nlohmann::json object = object_of_line(line);
  if (object.is_null()) return false;
  const auto number = [&](const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
  };
  const int64_t epoch = number("epoch");  // from 1
  if (epoch != position.epochs + 1) return epoch > position.epochs;
  return !object.contains("step") || number("step") > static_cast<int64_t>(position.steps);
}

// The metrics up to `position`. What is no line of a run stays; half a line, from a process that
// was killed, does not.
std::string lines_until(const RunPosition& position, const std::string& text) {
  std::string kept;
  for (size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos;
       start = end + 1) {
    if (lies_behind(text.substr(start, end - start), position)) continue;
    kept.append(text, start, end + 1 - start);
  }
  return kept;
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

// Throws ConfigError if `folder` holds anything that a new run would overwrite.
void check_holds_no_run(const fs::path& folder) {
  for (const fs::path& file : files_of_a_run()) {
    std::error_code error;
    const auto bytes = fs::file_size(folder / file, error);
    if (error || bytes == 0) continue;
    const std::string start = folder.string() + ": holds a run already (" + file.string() + "); ";
    if (!checkpoint_in(folder).empty()) {
      throw ConfigError(start + "go on with it by '--resume last --out " + folder.string() +
                        "', or choose another folder with --out DIR");
    }
    throw ConfigError(start +
                      "it has no checkpoint to go on from: remove it, or choose another folder "
                      "with --out DIR");
  }
}

// Writing to a pipe may wait for ever, and through a link to what this process reads would destroy that.
void check_files(const fs::path& folder) {
  const std::string remove_it = "remove it, or choose";
  for (const fs::path& file : files_of_a_run()) {
    const fs::path path = folder / file;
    std::error_code error;
    if (!is_replaced(path)) {
      refuse(folder, file.string() + " is not a regular file", remove_it);
    }
    if (fs::is_symlink(path, error) && InputFile::was_read(path)) {
      refuse(folder, file.string() + " is a link to a file that this command reads", remove_it);
    }
  }
}

}  // namespace

RunFolder::RunFolder(fs::path path) : path_(std::move(path)), lock_(path_) {
  check_files(path_);
  for (const fs::path& file : files_of_a_run()) remove_temporary_files(path_ / file);
}

void RunFolder::check_free(const fs::path& folder) {
  RunLock::check_free(folder);  // first: what a process writes there is not to be removed
  check_files(folder);
  check_holds_no_run(folder);
}

RunFolder RunFolder::create(const fs::path& folder) {
  make_folder(folder);
  RunFolder run(folder);
  check_holds_no_run(folder);
  return run;
}

RunFolder RunFolder::reopen(const fs::path& folder) { return RunFolder(folder); }

void RunFolder::make_checkpoints() const { make_folder(path_ / "checkpoints"); }

void RunFolder::open_metrics(const RunPosition& position) {
  const fs::path path = path_ / "metrics.jsonl";
  std::error_code ignored;
  const std::string text =
      fs::exists(path, ignored) ? read_input_file(path, kMostMetricsBytes) : "";
  const std::string kept = lines_until(position, text);
  if (kept != text) write_file(path, kept);
  metrics_ = Descriptor(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
  if (!metrics_) refuse(path_, std::strerror(errno));
}

std::vector<nlohmann::json> RunFolder::epochs() const {
  std::vector<nlohmann::json> lines;
  std::error_code error;
  if (!fs::exists(path_ / "metrics.jsonl", error)) return lines;
  std::istringstream text(read_input_file(path_ / "metrics.jsonl", kMostMetricsBytes));
  for (std::string line; std::getline(text, line);) {
    if (line.size() > kMostLineBytes) continue;
    nlohmann::json object = object_of_line(line);
    if (object.is_object() && object.value("event", nlohmann::json()) == "epoch") {
      lines.push_back(std::move(object));
    }
  }
  return lines;
}

void RunFolder::append_metrics(const nlohmann::json& line) {
  const off_t bytes = lseek(metrics_.get(), 0, SEEK_END);
  if (write_all(metrics_, json_text(line) + "\n")) return;
  const std::string why = std::strerror(errno);
  // If this fails too, open_metrics() of the next process removes the half line.
  if (bytes < 0 || ftruncate(metrics_.get(), bytes) != 0) metrics_.close();
  throw RunError("cannot write " + (path_ / "metrics.jsonl").string() + ": " + why);
}

std::vector<fs::path> files_in_run(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const fs::path& file : files_of_a_run()) files.push_back(folder / file);
  for (const char* place : {"checkpoints", "kernels"}) {
    for (fs::recursive_directory_iterator it(folder / place, error), end; !error && it != end;
         it.increment(error)) {
      files.push_back(it->path());
    }
  }
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().string().starts_with("events.out.")) files.push_back(it->path());
  }
  return files;
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
  std::error_code error;
  if (!out.empty()) {
    const fs::path checkpoint = checkpoint_in(out);
    if (!checkpoint.empty()) return checkpoint;
    throw ConfigError("--resume last: there is no " +
                      (out / "checkpoints" / "last.safetensors").string() +
                      "; name the folder of a run with --out DIR, or leave --resume out");
  }
  fs::path newest;
  fs::file_time_type newest_time{};
  for (const auto& entry : fs::directory_iterator("runs", error)) {
    const fs::path checkpoint = checkpoint_in(entry.path());
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

fs::path find_best_checkpoint(const fs::path& run) {
  const fs::path checkpoint = first_of(run, {"best.safetensors", "last.safetensors"});
  if (!checkpoint.empty()) return checkpoint;
  throw ConfigError(run.string() +
                    ": is a folder without checkpoints/best.safetensors or "
                    "checkpoints/last.safetensors; name a run's folder or a .safetensors file");
}

fs::path checkpoint_named(const std::string& option, const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    throw ConfigError(option + " " + path.string() + ": there is no such file or folder");
  }
  return fs::is_directory(path, error) ? find_best_checkpoint(path) : path;
}

fs::path run_folder_of(const fs::path& checkpoint) {
  const fs::path parent = fs::absolute(checkpoint).parent_path();
  return parent.filename() == "checkpoints" ? parent.parent_path() : fs::path();
}

}  // namespace duet
