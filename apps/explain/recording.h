// What the recorder (recorder.h) wrote down, for the program in which it is loaded.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace duet {

/// An argument of a recorded call; recorder.h says what the kinds mean.
struct RecordedArgument {
  std::string name, kind, type;
  nlohmann::json value;
  bool constant = false;  // memory that is read alone

  std::string text() const { return value.is_string() ? value.get<std::string>() : value.dump(); }
};

struct Record {
  enum class Kind { kMark, kCall, kKernel, kAllocation };
  Kind kind = Kind::kMark;
  std::string name;  // the mark's text, the function, the kernel, the address
  std::vector<RecordedArgument> arguments = {};
  int status = 0;    // of a call
  size_t bytes = 0;  // of an allocation

  /// REQUIRES: there is one.
  const RecordedArgument& argument(const std::string& name) const;
};

/// Whether the recorder is loaded.
bool recorder_is_loaded();
/// Whether it answers in place of a GPU.
bool recorder_stands_in();
/// Starts this process again from its beginning, with the recorder. Throws RunError if that cannot be.
[[noreturn]] void restart_with_recorder();

// REQUIRES, for these: recorder_is_loaded().
void mark(const std::string& text);
/// What was recorded since the last time.
std::vector<Record> take_records();

/// "convert_kernel" of "void duet::(anonymous namespace)::convert_kernel<float>(long, float const*)".
std::string short_name(const std::string& kernel);

}  // namespace duet
