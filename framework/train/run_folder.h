// What a run leaves: config.yaml, run.json, metrics.jsonl, checkpoints/.
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace duet {

class RunFolder {
 public:
  /// A new run in `folder`. Throws ConfigError if it holds a run already or cannot be written to.
  static RunFolder create(const std::filesystem::path& folder);
  /// Goes on with the run in `folder`: metrics.jsonl is appended to.
  static RunFolder reopen(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path last() const { return path_ / "checkpoints" / "last.safetensors"; }
  std::filesystem::path best() const { return path_ / "checkpoints" / "best.safetensors"; }

  /// Writes a whole file; throws RunError.
  void write(const std::string& name, const std::string& text) const;
  /// Appends one object as a line of metrics.jsonl; throws RunError.
  void append_metrics(const nlohmann::json& line);

 private:
  explicit RunFolder(std::filesystem::path path);

  std::filesystem::path path_;
  std::ofstream metrics_;
};

/// runs/<name>-<local time>, one that does not exist yet.
std::filesystem::path new_run_path(const std::string& name);
/// The checkpoint that `--resume last` means: in `out` if given, else of the newest run of `name`
/// in runs/. Throws ConfigError if there is none.
std::filesystem::path find_last_checkpoint(const std::string& name,
                                           const std::filesystem::path& out);

}  // namespace duet
