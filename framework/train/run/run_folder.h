// What a run leaves: config.yaml, run.json, metrics.jsonl, evaluation.json, checkpoints/, and the
// user's own kernels that it ran in kernels/. A
// profile leaves config.yaml, profile.json and trace.json.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/descriptor.h"
#include "core/write_file.h"
#include "train/run/run_lock.h"
#include "train/run/run_position.h"

namespace duet {

/// A run's folder, locked as long as this lives (run_lock.h).
class RunFolder {
 public:
  /// Throws ConfigError if a process is writing into `folder`, if it holds anything that a new run
  /// would overwrite, or if a file of a run is a pipe or a device there, or a link to a file that
  /// this process has read.
  static void check_free(const std::filesystem::path& folder);
  /// A new run in `folder`, which is made. Throws ConfigError as check_free() does, or if it cannot
  /// be written to, or if another process writes into it.
  static RunFolder create(const std::filesystem::path& folder);
  /// The folder of a run that is to go on. Throws ConfigError as create() does. Changes nothing but
  /// that temporary files of killed processes are removed.
  static RunFolder reopen(const std::filesystem::path& folder);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path last() const { return path_ / "checkpoints" / "last.safetensors"; }
  std::filesystem::path best() const { return path_ / "checkpoints" / "best.safetensors"; }

  void write(const std::string& name, const std::string& text) const {
    write_file(path_ / name, text);
  }
  /// Makes the folder of last() and best(). Throws ConfigError.
  void make_checkpoints() const;
  /// Makes metrics.jsonl ready to go on from `position`: removes the lines behind it, and a line
  /// that was cut short. Throws ConfigError, DataError (no regular file, or far too large) or
  /// RunError.
  void open_metrics(const RunPosition& position);
  /// The lines of epochs so far, in order. Throws DataError as open_metrics() does.
  std::vector<nlohmann::json> epochs() const;
  /// Appends one object as a line of metrics.jsonl, all of it or nothing; throws RunError.
  /// REQUIRES: open_metrics() was called.
  void append_metrics(const nlohmann::json& line);

 private:
  explicit RunFolder(std::filesystem::path path);

  std::filesystem::path path_;
  RunLock lock_;
  Descriptor metrics_;
};

/// What a run has in its folder, or may have: its own files, all in checkpoints/ and kernels/, and
/// TensorBoard's.
std::vector<std::filesystem::path> files_in_run(const std::filesystem::path& folder);

/// Makes and returns runs/<name>-<local time>, one that did not exist. Throws ConfigError.
std::filesystem::path make_run_path(const std::string& name);
/// The checkpoint that `--resume last` means: in `out` if given, else of the newest run of `name`
/// in runs/. Throws ConfigError if there is none.
std::filesystem::path find_last_checkpoint(const std::string& name,
                                           const std::filesystem::path& out);
/// Of a run's folder the checkpoint of the best epoch; the last if there is none. Throws
/// ConfigError if there is neither.
std::filesystem::path find_best_checkpoint(const std::filesystem::path& run);
/// The checkpoint that `option` names: a file, or in a run's folder find_best_checkpoint(). Throws
/// ConfigError, which begins with `option`, if there is none.
std::filesystem::path checkpoint_named(const std::string& option,
                                       const std::filesystem::path& path);
/// The folder of the run that a checkpoint belongs to by its place, or an empty path.
std::filesystem::path run_folder_of(const std::filesystem::path& checkpoint);

}  // namespace duet
