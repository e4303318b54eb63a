// safetensors (https://github.com/huggingface/safetensors): named tensors in one file that PyTorch
// and others read. A 64-bit little-endian length, a JSON header of that length, then the tensors'
// bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace duet::safetensors {

/// A tensor in the host's memory, row-major. An empty shape is a scalar.
struct Entry {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  const void* data = nullptr;  // not owned

  size_t bytes() const;
};

/// A tensor of a type that Duet does not have.
struct Unread {
  std::string name;
  std::string type;  // the format's: "I64"
  std::vector<int64_t> shape;
};

/// Free text under the header's "__metadata__".
using Metadata = std::map<std::string, std::string>;

/// Writes `entries` as write_file() writes: whatever happens, `path` is the old file or the whole
/// new one. Throws RunError, also for a name or metadata that is not UTF-8. The data of every entry
/// is aligned to its type in the file. REQUIRES: names are unique and none is "__metadata__".
void write(const std::filesystem::path& path, const std::vector<Entry>& entries,
           const Metadata& metadata = {});

/// The content of a file, in memory.
class File {
 public:
  File() = default;
  File(File&&) = default;  // move-only: entries point into data_
  File& operator=(File&&) = default;

  /// In the order of their data. Tensors of types that Duet does not have (I64, BOOL, ...) are
  /// checked like the others, and are in unread().
  const std::vector<Entry>& entries() const { return entries_; }
  const std::vector<Unread>& unread() const { return unread_; }
  /// nullptr if there is none of that name.
  const Entry* find(std::string_view name) const;
  const Metadata& metadata() const { return metadata_; }

 private:
  friend class FileReader;

  std::vector<Entry> entries_;
  std::vector<Unread> unread_;
  std::vector<std::vector<uint8_t>> data_;  // a vector an entry; its address stays when File moves
  std::map<std::string, size_t, std::less<>> places_;  // of entries_, by name
  Metadata metadata_;
};

/// Reads and checks everything: the header's length and JSON, types, shapes, that the tensors'
/// bytes follow each other without hole or overlap and fill the file to its end. Throws DataError,
/// with file and offset. `check` sees all but the data, before memory is taken for that, and throws
/// if the file is not what it should be.
File read(const std::filesystem::path& path,
          const std::function<void(const File& described)>& check = {});
/// The same without the data: entries are null.
File describe(const std::filesystem::path& path);

/// "'fc.weight' is 2x2 float16 there, but 2x3 float32 here" of the tensor `name`, which is to be float32 of that shape; empty
/// if it is, or if there is none of that name, of whatever type.
std::string misfit(const File& file, const std::string& name, const Shape& shape);
/// The first of some names: "a, b, ... (30 in all)".
std::string names_text(std::vector<std::string> names);

}  // namespace duet::safetensors
