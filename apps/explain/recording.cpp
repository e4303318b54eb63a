#include "recording.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/error.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLibrary = "libduet_recorder.so";
constexpr const char* kStarted = "DUET_RECORDER_STARTED";  // so that a restart is tried once

template <class Function>
Function* loaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// Beside the program, as it is built, or in the folder of libraries beside the program's.
fs::path library_path() {
  const fs::path folder = fs::read_symlink("/proc/self/exe").parent_path();
  for (const char* place : {".", "../lib/duet", "../lib64/duet", "../lib/x86_64-linux-gnu/duet"}) {
    const fs::path path = folder / place / kLibrary;
    if (fs::exists(path)) return fs::canonical(path);
  }
  throw RunError("explain needs " + std::string(kLibrary) + ", which is not beside " +
                 folder.string() + "; build the target duet_recorder");
}

std::vector<std::string> own_arguments() {
  std::ifstream in("/proc/self/cmdline", std::ios::binary);
  const std::string all(std::istreambuf_iterator<char>(in), {});
  std::vector<std::string> arguments;
  for (size_t begin = 0; begin < all.size();) {
    arguments.emplace_back(all.c_str() + begin);
    begin += arguments.back().size() + 1;
  }
  return arguments;
}

Record record_of(const nlohmann::json& json) {
  Record record;
  if (json.contains("mark")) {
    record.name = json["mark"];
    return record;
  }
  if (json.contains("allocated")) {
    record.kind = Record::Kind::kAllocation;
    record.name = json["allocated"];
    record.bytes = json["bytes"];
    return record;
  }
  const bool call = json.contains("call");
  record.kind = call ? Record::Kind::kCall : Record::Kind::kKernel;
  record.name = json[call ? "call" : "kernel"];
  if (call) record.status = json["status"];
  for (const nlohmann::json& from : json["arguments"]) {
    RecordedArgument argument;
    if (call) {
      argument = {from["name"], from["kind"], from["type"], from["value"],
                  from.value("constant", false)};
    } else {
      argument.type = from["type"];
      for (const char* kind : {"memory", "number"}) {
        if (!from.contains(kind)) continue;
        argument.kind = kind;
        argument.value = from[kind];
      }
      argument.constant = argument.type.find("const") != std::string::npos;
    }
    record.arguments.push_back(std::move(argument));
  }
  return record;
}

}  // namespace

const RecordedArgument& Record::argument(const std::string& wanted) const {
  for (const RecordedArgument& argument : arguments) {
    if (argument.name == wanted) return argument;
  }
  throw std::logic_error(name + " has no argument " + wanted);
}

bool recorder_is_loaded() { return loaded<void(const char*)>("duet_recorder_mark") != nullptr; }

bool recorder_stands_in() { return loaded<int()>("duet_recorder_stands_in")() != 0; }

void restart_with_recorder() {
  if (std::getenv(kStarted)) {
    throw RunError(std::string(kLibrary) + " could not be loaded into this program");
  }
  std::string preload = library_path().string();
  if (const char* others = std::getenv("LD_PRELOAD"); others && *others) {
    preload += ":" + std::string(others);
  }
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv(kStarted, "1", 1);
  std::vector<std::string> arguments = own_arguments();
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  throw RunError("this program could not be started again");
}

void mark(const std::string& text) {
  loaded<void(const char*)>("duet_recorder_mark")(text.c_str());
}

std::vector<Record> take_records() {
  const std::string lines = loaded<const char*()>("duet_recorder_take")();
  std::vector<Record> records;
  for (size_t begin = 0; begin < lines.size();) {
    const size_t end = lines.find('\n', begin);
    records.push_back(record_of(nlohmann::json::parse(lines.substr(begin, end - begin))));
    begin = end + 1;
  }
  return records;
}

std::string short_name(const std::string& kernel) {
  size_t end = kernel.find("_kernel");
  end = end == std::string::npos ? std::min(kernel.find_first_of("<("), kernel.size()) : end + 7;
  size_t begin = end;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(kernel[begin - 1])) ||
                       kernel[begin - 1] == '_')) {
    --begin;
  }
  return kernel.substr(begin, end - begin);
}

}  // namespace duet
