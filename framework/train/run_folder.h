// What a run leaves: config.yaml, run.json, metrics.jsonl, checkpoints/. A profile leaves
// config.yaml, profile.json and trace.json.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "train/write_file.h"

namespace duet {

/// Makes `folder` if it is not there. Throws ConfigError.
void make_folder(const std::filesystem::path& folder);

class RunFolder {
 public:
  /// Throws ConfigError if `folder` holds anything that a new run would overwrite.
  static void check_free(const std::filesystem::path& folder);
  /// A new run in `folder`. Throws ConfigError as check_free() does, or if it cannot be written to.
  static RunFolder create(const std::filesystem::path& folder);
  /// Goes on with the run in `folder`: metrics.jsonl is appended to, less a line that was cut
  /// short.
  static RunFolder reopen(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path last() const { return path_ / "checkpoints" / "last.safetensors"; }
  std::filesystem::path best() const { return path_ / "checkpoints" / "best.safetensors"; }

  void write(const std::string& name, const std::string& text) const {
    write_file(path_ / name, text);
  }
  /// Appends one object as a line of metrics.jsonl, all of it or nothing; throws RunError.
  void append_metrics(const nlohmann::json& line);

 private:
  explicit RunFolder(std::filesystem::path path);

  std::filesystem::path path_;
  std::ofstream metrics_;
};

/// Makes and returns runs/<name>-<local time>, one that did not exist. Throws ConfigError.
std::filesystem::path make_run_path(const std::string& name);
/// The checkpoint that `--resume last` means: in `out` if given, else of the newest run of `name`
/// in runs/. Throws ConfigError if there is none.
std::filesystem::path find_last_checkpoint(const std::string& name,
                                           const std::filesystem::path& out);

}  // namespace duet
