#include "compare/outputs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compare/results_json.h"
#include "core/running.h"
#include "core/write_file.h"
#include "device/stopwatch.h"

namespace duet {

namespace fs = std::filesystem;

namespace {

void check_writable(const NamedFile& output) {
  const fs::path folder = fs::path(output.file).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  const std::string why = error ? error.message() : why_not_writable(output.file);
  if (!why.empty()) {
    throw ConfigError(output.option + " " + output.file + ": cannot be written: " + why);
  }
}

// Into a device or a pipe several can be written.
bool holds_one(const std::string& file) {
  std::error_code error;
  return !fs::exists(file, error) || fs::is_regular_file(file, error);
}

void check_apart(const NamedFile& output, const NamedFile& other) {
  if (other.file.empty() || !holds_one(output.file) || !same_file(output.file, other.file)) return;
  throw ConfigError(output.option + " " + output.file + ": is also the file of " + other.option +
                    "; give it one of its own");
}

}  // namespace

void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  const NamedFile tables = {"standard output", "/dev/stdout"};
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].file.empty()) continue;
    check_apart(outputs[i], tables);
    for (size_t j = 0; j < i; ++j) check_apart(outputs[i], outputs[j]);
    for (const NamedFile& input : inputs) check_apart(outputs[i], input);
  }
  for (const NamedFile& output : outputs) {
    if (!output.file.empty()) check_writable(output);
  }
}

bool PartialResults::due() const {
  return !file_.empty() && holds_one(file_) && now_seconds() >= next_;
}

void PartialResults::write(nlohmann::json results, const std::string& work) {
  const double start = now_seconds();
  results["stopped"] = "the program ended without a word while " + work + " was measured";
  try {
    write_file(file_, file_text(results));
  } catch (const RunError& error) {
    spdlog::warn("{}; what is measured is written at the end only", error.what());
    file_.clear();
  }
  const double end = now_seconds();
  next_ = end + std::max(0.25, 20 * (end - start));
}

std::exception_ptr named_error() {
  try {
    throw;
  } catch (const DeviceError& error) {
    const std::string last = Running::last();
    const std::string named =
        last.empty() ? error.what() : std::string(error.what()) + " (" + last + " ran last)";
    return std::make_exception_ptr(DeviceError(named));
  } catch (...) {
    return std::current_exception();
  }
}

ExitCode write_output(const std::string& file, const std::string& what,
                      const std::function<std::string()>& make) {
  if (file.empty()) return kExitDone;
  try {
    write_file(file, make());
    spdlog::info("{} {}", what, file);
    return kExitDone;
  } catch (const std::exception& error) {
    spdlog::error("{}", message_of(error));
    return exit_code_of(error);
  }
}

}  // namespace duet
