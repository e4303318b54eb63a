#include "core/output_files.h"

#include <filesystem>

#include "core/error.h"
#include "core/input_file.h"
#include "core/write_file.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const NamedFile& output, const std::string& why) {
  throw ConfigError(output.option + " " + output.file + ": " + why);
}

void check_writable(const NamedFile& output) {
  const fs::path folder = fs::path(output.file).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  const std::string why = error ? error.message() : why_not_writable(output.file);
  if (!why.empty()) refuse(output, "cannot be written: " + why);
}

void check_apart(const NamedFile& output, const NamedFile& other) {
  if (other.file.empty() || !same_file(output.file, other.file)) return;
  refuse(output, "is also the file of " + other.option + "; give it one of its own");
}

}  // namespace

void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs) {
  const NamedFile printed = {"standard output", "/dev/stdout"};
  for (size_t i = 0; i < outputs.size(); ++i) {
    const NamedFile& output = outputs[i];
    if (output.file.empty() || !is_replaced(output.file)) continue;
    check_apart(output, printed);
    for (size_t j = 0; j < i; ++j) check_apart(output, outputs[j]);
    for (const NamedFile& input : inputs) check_apart(output, input);
    if (!output.updated && InputFile::was_read(output.file)) {
      refuse(output, "is a file that this command reads, too; give it one of its own");
    }
  }
  for (const NamedFile& output : outputs) {
    if (!output.file.empty()) check_writable(output);
  }
}

}  // namespace duet
