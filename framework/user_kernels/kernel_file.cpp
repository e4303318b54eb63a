#include "user_kernels/kernel_file.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "core/error.h"
#include "core/input_file.h"
#include "core/number_text.h"
#include "data/set/fingerprint.h"
#include "layers/layers.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostSourceBytes = 1 << 20;
constexpr size_t kMostHeaders = 100;
constexpr const char* kNameRule =
    "a file of kernels is called LAYER_custom_NAME.cu, or LAYER_cpu_NAME.cpp for the CPU, e.g. "
    "conv2d_custom_mine.cu";

struct Kind {
  Device device;
  std::string prefix, extension;  // of the id, and of the file
};
const Kind kKinds[] = {{Device::kGpu, "custom_", ".cu"}, {Device::kCpu, "cpu_", ".cpp"}};

const Kind& kind_of(Device device) { return kKinds[device == Device::kCpu ? 1 : 0]; }

// That of a file with such a name; nullptr if it is no file of kernels.
const Kind* find_kind(const fs::path& path) {
  for (const Kind& kind : kKinds) {
    const bool named = path.stem().string().find("_" + kind.prefix) != std::string::npos;
    if (named && path.extension() == kind.extension) return &kind;
  }
  return nullptr;
}

// Of a name that follows the rule but for its end, as relu_custom_mine.cpp: what the file should be called.
std::string name_with_its_extension(const fs::path& path) {
  if (path.extension() != ".cu" && path.extension() != ".cpp") return "";
  const std::string stem = path.stem().string();
  for (const Kind& kind : kKinds) {
    const size_t id = stem.find("_" + kind.prefix);
    if (id == std::string::npos || !find_layer_type(stem.substr(0, id))) continue;
    return path.extension() == kind.extension ? "" : stem + kind.extension;
  }
  return "";
}

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  for (const LayerType* each : layer_types()) names.emplace_back(each->name);
  return names;
}

// The name in a line `#include "name"`, or "".
std::string included_in(const std::string& line) {
  std::istringstream words(line);
  char hash = 0;
  std::string directive, name;
  if (!(words >> hash) || hash != '#' || !(words >> directive)) return "";
  if (directive.starts_with("include\"")) {
    name = directive.substr(7);
  } else if (directive != "include" || !(words >> name)) {
    return "";
  }
  const size_t end = name.find('"', 1);
  return name[0] == '"' && end != std::string::npos ? name.substr(1, end - 1) : "";
}

// Whether a line begins with DUET_PLUGIN(...).
bool has_plugin(const std::string& source) {
  std::istringstream lines(source);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = line.find_first_not_of(" \t");
    if (begin != std::string::npos && line.compare(begin, 12, "DUET_PLUGIN(") == 0) return true;
  }
  return false;
}

// Throws ConfigError: a compiler would end there.
std::string read_source(const fs::path& path) {
  std::string text = read_input_file(path, kMostSourceBytes);
  if (text.find('\0') != std::string::npos) {
    throw ConfigError(path.string() + ": holds a NUL byte, so it is no text of a program");
  }
  return text;
}

// Where a copy of a kernel file has what is included as `name`: within its folder, also what lies outside.
fs::path place_of_header(const KernelFile& file, const fs::path& name) {
  fs::path place = file.path.stem().string() + ".headers";
  for (const fs::path& part : name) {
    place /= part == ".." ? fs::path("parent") : part.is_absolute() ? fs::path("root") : part;
  }
  return place;
}

// The file that `name` in a file of `folder` includes; empty if it is not there.
fs::path find_header(const KernelFile& file, const fs::path& folder, const std::string& name) {
  std::error_code error;
  for (const fs::path& path :
       {file.path.parent_path() / place_of_header(file, name), folder / name}) {
    if (fs::exists(path, error)) return path;
  }
  return {};
}

// Adds what `text`, a file in `folder`, includes and what that includes. Files that are not there are
// the compiler's to tell of.
void add_headers(const std::string& text, const fs::path& folder, KernelFile* file) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = included_in(line);
    if (name.empty()) continue;
    const fs::path path = find_header(*file, folder, name);
    if (path.empty()) continue;
    const std::string header = read_source(path);
    const auto known = std::find_if(file->headers.begin(), file->headers.end(),
                                    [&](const auto& each) { return each.first == name; });
    if (known != file->headers.end()) {
      if (known->second == header) continue;
      throw ConfigError(file->path.string() + ": another file than " + path.string() +
                        " is included as \"" + name +
                        "\", too, and the compiler tells them apart by that name alone; rename "
                        "one");
    }
    if (file->headers.size() == kMostHeaders) {
      throw ConfigError(file->path.string() + ": includes more than 100 files");
    }
    file->headers.emplace_back(name, header);
    add_headers(header, path.parent_path(), file);
  }
}

std::string hash_text(const KernelFile& file) {
  std::string all = file.source;
  for (const auto& [name, text] : file.headers) all += '\0' + name + '\0' + text;
  return printed("%016llx", static_cast<unsigned long long>(hash_of(all.data(), all.size())))
      .substr(0, 12);
}

}  // namespace

std::vector<std::pair<fs::path, std::string>> copy_of(const KernelFile& file) {
  std::vector<std::pair<fs::path, std::string>> all = {{file.path.filename(), file.source}};
  for (const auto& [name, text] : file.headers) all.emplace_back(place_of_header(file, name), text);
  return all;
}

std::string kernel_file_name(const std::string& type, Device device, const std::string& name) {
  return type + "_" + kind_of(device).prefix + name + kind_of(device).extension;
}

std::string id_prefix(Device device) { return kind_of(device).prefix; }

bool is_kernel_path(const std::string& path) {
  return std::any_of(std::begin(kKinds), std::end(kKinds),
                     [&](const Kind& kind) { return path.ends_with(kind.extension); });
}

KernelFile named_kernel_file(const fs::path& path) {
  const std::string place = path.string() + ": ", stem = path.stem().string();
  const Kind* kind = find_kind(path);
  const size_t id = kind ? stem.find("_" + kind->prefix) : 0;
  const size_t name = kind ? id + 1 + kind->prefix.size() : 0;
  if (!kind || name == stem.size() || stem[name] == '_' ||
      stem.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos) {
    throw ConfigError(
        place + kNameRule +
        ", in small letters, digits and '_', and NAME begins with none of the latter");
  }
  KernelFile file{
      .path = path, .device = kind->device, .type = stem.substr(0, id), .id = stem.substr(id + 1)};
  const LayerType* type = find_layer_type(file.type);
  if (!type) {
    throw ConfigError(place + "there is no layer type '" + file.type + "'" +
                      did_you_mean(file.type, layer_names()) + "; " + kNameRule);
  }
  for (const ImplInfo& info : type->list()) {
    if (info.id == file.id) {
      throw ConfigError(place + file.type + " has a " + file.id +
                        " of Duet's own; give the file another name");
    }
  }
  return file;
}

KernelFile read_kernel_file(const fs::path& path) {
  KernelFile file = named_kernel_file(path);
  file.source = read_source(path);
  file.plugin = has_plugin(file.source);
  add_headers(file.source, path.parent_path(), &file);
  file.hash = hash_text(file);
  return file;
}

int line_of_function(const KernelFile& file, const std::string& name) {
  const auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  std::istringstream lines(file.source);
  int number = 1;
  for (std::string line; std::getline(lines, line); ++number) {
    const size_t at = line.find(name), comment = line.find("//");
    if (at == std::string::npos || at == 0 || at > comment || is_part(line[at - 1])) continue;
    const size_t next = line.find_first_not_of(" \t", at + name.size());
    const bool typed = line.find_first_not_of(" \t") < at;  // a type before it, and so no call
    if (typed && next != std::string::npos && line[next] == '(') return number;
  }
  return 1;
}

std::vector<fs::path> kernel_files_in(const fs::path& path) {
  if (path.empty()) throw ConfigError("the path of kernels is empty; a file or a folder is wanted");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    throw ConfigError(path.string() + ": there is no such file or folder of kernels");
  }
  if (!fs::is_directory(status)) return {path};
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string should = name_with_its_extension(entry.path());
    if (!should.empty()) {
      spdlog::warn("{}: is left out; kernels of that name are called {}", entry.path().string(),
                   should);
    }
    const Kind* kind = find_kind(entry.path());
    if (!kind) continue;
    const std::string stem = entry.path().stem().string(),
                      type = stem.substr(0, stem.find("_" + kind->prefix));
    if (find_layer_type(type)) {
      files.push_back(entry.path());
    } else {
      spdlog::warn("{}: is left out, as there is no layer type '{}'{}", entry.path().string(), type,
                   did_you_mean(type, layer_names()));
    }
  }
  if (error) throw ConfigError(path.string() + ": " + error.message());
  if (files.empty()) throw ConfigError(path.string() + ": holds no kernels; " + kNameRule);
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace duet
