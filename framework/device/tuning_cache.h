// Results of searches that cost start-up time, kept from run to run in a small JSON file. A file
// that is corrupt, or cannot be read or written, costs a new search and nothing else.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace duet {

class TuningCache {
 public:
  /// What was found, by name.
  using Entry = std::map<std::string, int64_t>;

  /// Reads `file`; an empty path keeps entries in memory only.
  explicit TuningCache(std::filesystem::path file);

  /// $XDG_CACHE_HOME/duet/`name`, or ~/.cache/duet/`name`; empty if there is no home.
  static std::filesystem::path path_of(const std::string& name);

  /// For a process that cannot measure: from here on every cache finds what `answer` gives for a key,
  /// and the files stay as they are.
  static void answer_instead(std::optional<Entry> (*answer)(const std::string& key));

  /// `key` should name everything that the result depends on: problem, GPU, library version.
  std::optional<Entry> find(const std::string& key) const;
  /// Adds or replaces an entry and rewrites the file at once: what other processes added meanwhile
  /// is kept, and a reader sees the old file or the new one, never half of one.
  void insert(const std::string& key, const Entry& entry);
  /// Why the last insert() could not be kept for other processes, or "".
  std::string why_not_kept() const;

 private:
  void merge_file();
  std::string write_file() const;

  const std::filesystem::path file_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
  std::string why_not_kept_;
};

}  // namespace duet
