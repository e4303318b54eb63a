// A configuration as a tree that remembers where each value stood, and the reader with which every
// part of the framework takes its keys from it. Format-neutral: net/yaml.h makes the tree.
#pragma once

#include <cstdint>
#include <limits>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace duet {

/// Where something stands in a file, from 1; line 0 means "not from a file".
struct Mark {
  static constexpr int kCommandLine = -1;  // as `line`: given with --set or its likes
  int line = 0;
  int column = 0;
};

struct ConfigNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string scalar;             // kScalar
  std::vector<ConfigNode> items;  // kList
  std::list<std::pair<std::string, ConfigNode>>
      entries;    // kMap, in file order; references stay good
  Mark mark;      // the value
  Mark key_mark;  // its key, if it has one

  static ConfigNode of(std::string_view text);
  static ConfigNode map() { return {.kind = Kind::kMap}; }

  /// The entry `key` of a map, or nullptr.
  ConfigNode* find(std::string_view key);
  const ConfigNode* find(std::string_view key) const;
  /// The entry `key`, added (null) if absent. REQUIRES: kNull or kMap; becomes a kMap.
  ConfigNode& at_or_add(std::string_view key);
  void erase(std::string_view key);
};

/// Collects every mistake of one configuration, so that all are told at once.
class ConfigErrors {
 public:
  explicit ConfigErrors(std::string file) : file_(std::move(file)) {}

  /// Adds "file:line:column: message", or "command line: message".
  void add(Mark mark, const std::string& message);
  /// The same, for something that is right but that no implementation here can do (exit code 3 if
  /// there are no other mistakes).
  void add_unsupported(Mark mark, const std::string& message);
  bool empty() const { return messages_.empty(); }
  size_t count() const { return messages_.size() + more_; }
  /// Throws ConfigError (or UnsupportedError) with the messages, in file order, if there are any.
  /// Of very many the first hundred that were added are told.
  void raise_if_any() const;

 private:
  struct Message {
    Mark mark;
    std::string text;
  };
  void insert(Mark mark, const std::string& message);

  std::string file_;
  std::vector<Message> messages_;
  size_t more_ = 0;  // added when there were a hundred already
  bool only_unsupported_ = true;
};

/// Takes typed values out of one map. A key that is absent is written back with its default, so
/// that after reading the tree is the resolved configuration. finish() reports the keys nobody
/// asked for.
class ConfigReader {
 public:
  static constexpr int64_t kMaxInteger = std::numeric_limits<int32_t>::max();

  /// `path` names the map in messages ("layer conv1"). REQUIRES: node and errors outlive the
  /// reader.
  ConfigReader(ConfigNode& node, std::string path, ConfigErrors& errors);

  bool has(std::string_view key) const { return node_.find(key) != nullptr; }
  Mark mark() const { return node_.mark; }
  /// The mark of `key`'s value if it is there, else of the map.
  Mark mark(std::string_view key) const;

  /// Without a fallback the key is required. Out of range or of the wrong type: an error is noted
  /// and the fallback (or min) returned.
  int64_t integer(std::string_view key, std::optional<int64_t> fallback = {}, int64_t min = 1,
                  int64_t max = kMaxInteger);
  /// `number` and `numbers`: computed in float32, which has to hold them.
  double number(std::string_view key, std::optional<double> fallback = {},
                double min = -std::numeric_limits<double>::infinity(),
                double max = std::numeric_limits<double>::infinity());
  bool flag(std::string_view key, std::optional<bool> fallback = {});
  std::string text(std::string_view key, std::optional<std::string> fallback = {});
  /// One of `options`; an unknown value lists them and names the nearest.
  std::string choice(std::string_view key, const std::vector<std::string>& options,
                     std::optional<std::string> fallback = {});
  /// One integer for both, or a list of two: {height, width}.
  std::pair<int64_t, int64_t> integer_pair(std::string_view key, std::optional<int64_t> fallback,
                                           int64_t min);
  /// One text, or a list of texts; `what` names one in messages: "the name of a layer". Required.
  std::vector<std::string> texts(std::string_view key, std::string_view what);
  /// One number, or a list of numbers.
  std::vector<double> numbers(std::string_view key, std::vector<double> fallback);
  /// The map under `key`, added empty if absent.
  ConfigReader map(std::string_view key);
  /// The raw value of `key` (nullptr if absent), for values of several shapes; counts as asked for.
  ConfigNode* raw(std::string_view key);

  /// Notes a mistake at `key`'s value (or at the map).
  void error(std::string_view key, const std::string& message);
  /// If there is a key of that name, which the map does not have: notes `why`, and that is all that
  /// is told of it. REQUIRES: nobody asked for it.
  void reject(std::string_view key, const std::string& why);
  /// Notes every key that was never asked for, with the nearest one that was.
  void finish();
  /// Every key asked for so far.
  const std::vector<std::string>& asked() const { return asked_; }
  ConfigErrors& errors() { return errors_; }
  const std::string& path() const { return path_; }

 private:
  ConfigNode* value_of(std::string_view key, bool required);

  ConfigNode& node_;
  std::string path_;
  ConfigErrors& errors_;
  std::vector<std::string> asked_;
};

/// The number that a text is, all of it; nothing if it is none, or none that is finite.
std::optional<int64_t> parse_integer(const std::string& text);
std::optional<double> parse_number(const std::string& text);

/// The candidate nearest to `word` by edit distance, if near enough to be a slip.
std::optional<std::string> nearest(std::string_view word,
                                   const std::vector<std::string>& candidates);
/// " (did you mean 'x'?)" of the nearest; empty if there is none.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);
/// "a, b, c"
std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");

}  // namespace duet
