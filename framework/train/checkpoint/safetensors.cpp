#include "train/checkpoint/safetensors.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <tuple>

#include "core/config.h"
#include "core/error.h"
#include "core/input_file.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "core/write_file.h"

namespace duet::safetensors {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kMetadataKey = "__metadata__";
constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit
constexpr uint64_t kHeaderAlignment = 8;

}  // namespace

// TypeName, Reader and Described are in no unnamed namespace: FileReader, which the header names, has members of them.
struct TypeName {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> dtype;  // none: valid, but nothing of Duet's
};

namespace {

constexpr TypeName kTypes[] = {{"F32", 4, DType::kFloat32},
                               {"F64", 8, DType::kFloat64},
                               {"F16", 2, DType::kFloat16},
                               {"BF16", 2, DType::kBFloat16},
                               {"U8", 1, DType::kUInt8},
                               {"I32", 4, DType::kInt32},
                               {"I64", 8, {}},
                               {"U64", 8, {}},
                               {"U32", 4, {}},
                               {"I16", 2, {}},
                               {"U16", 2, {}},
                               {"I8", 1, {}},
                               {"BOOL", 1, {}},
                               {"F8_E5M2", 1, {}},
                               {"F8_E4M3", 1, {}}};

std::string header_of(const std::vector<Entry>& entries, const Metadata& metadata) {
  // Written entry by entry: an ordered_json would look through all names for each.
  std::string text = "{";
  const auto add = [&](const std::string& name, const ordered_json& value) {
    text += (text.size() > 1 ? "," : "") + ordered_json(name).dump() + ":" + value.dump();
  };
  if (!metadata.empty()) add(kMetadataKey, metadata);
  uint64_t offset = 0;
  for (const Entry& entry : entries) {
    const auto type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [&](const TypeName& t) { return t.dtype == entry.dtype; });
    add(entry.name, {{"dtype", type->name},
                     {"shape", entry.shape},
                     {"data_offsets", {offset, offset + entry.bytes()}}});
    offset += entry.bytes();
  }
  text += "}";
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  return text;
}

}  // namespace

// Reads one file; knows where it is for its errors.
class Reader {
 public:
  explicit Reader(const fs::path& path) : path_(path), file_(path) {}

  uint64_t size() const { return file_.size(); }

  [[noreturn]] void fail(uint64_t offset, const std::string& what) const {
    throw DataError(path_.string() + ": offset " + std::to_string(offset) + ": " + what);
  }

  // REQUIRES: the range lies within size().
  void read(uint64_t offset, void* to, uint64_t bytes) const {
    const size_t got = file_.read(offset, to, bytes);
    if (got < bytes) fail(offset + got, "the file became shorter while it was read");
  }

 private:
  const fs::path path_;
  const InputFile file_;
};

// A tensor as the header describes it; begin and end count from the start of the data.
struct Described {
  std::string name;
  TypeName type;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

namespace {

// Finds a name that comes twice in one object, which a parsed object could not tell any more. (A
// callback of json::parse could, but with one nlohmann::json 3.10 looks through all members that an
// object has so far whenever another object ends in it: 165 s for 40,000 tensors.)
class DuplicateFinder : public nlohmann::json_sax<json> {
 public:
  std::optional<std::string> duplicate;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override {
    keys_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    duplicate = name;
    return false;  // ends the parsing
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t, const std::string&, const json::exception&) override { return false; }

 private:
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

json parse_header(const Reader& reader, const std::string& text) {
  if (text[0] != '{') {
    reader.fail(kLengthBytes,
                "expected a JSON object ('{'), found something else; not safetensors?");
  }
  json header;
  try {
    check_json_bounds(text);
    header = json::parse(text);
  } catch (const DataError& error) {
    reader.fail(kLengthBytes, std::string("the header, at its ") + error.what());
  } catch (const json::exception& error) {
    const auto* parse_error = dynamic_cast<const json::parse_error*>(&error);
    const uint64_t byte = parse_error && parse_error->byte > 0 ? parse_error->byte - 1 : 0;
    reader.fail(kLengthBytes + byte,
                std::string("the header is not valid JSON: ") + printable(error.what()));
  }
  DuplicateFinder finder;
  json::sax_parse(text, &finder);
  if (finder.duplicate) {
    reader.fail(kLengthBytes, "the header has '" + printable(*finder.duplicate) + "' twice");
  }
  return header;
}

Described describe(const Reader& reader, const std::string& name, const json& value) {
  const auto fail = [&](const std::string& what) {
    reader.fail(kLengthBytes, "tensor '" + printable(name) + "': " + what);
  };
  const auto is_counts = [](const json& list) {
    return list.is_array() && std::all_of(list.begin(), list.end(), [](const json& item) {
             return item.is_number_unsigned() &&
                    item.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
           });
  };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets")) {
    fail("expected exactly dtype, shape and data_offsets");
  }
  const json &dtype = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  const auto type = std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) {
    return dtype.is_string() && dtype.get_ref<const std::string&>() == t.name;
  });
  if (type == std::end(kTypes)) fail("unknown dtype " + printable(dtype.dump()));
  if (!is_counts(shape)) fail("shape is not a list of sizes: " + printable(shape.dump()));
  if (!is_counts(offsets) || offsets.size() != 2 || offsets[0] > offsets[1]) {
    fail("data_offsets is not [begin, end]: " + printable(offsets.dump()));
  }
  Described tensor{name, *type, shape.get<std::vector<int64_t>>(), offsets[0], offsets[1]};
  uint64_t bytes = type->bytes;
  for (const int64_t dim : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes)) {
      fail("shape " + printable(shape.dump()) + " is larger than any file");
    }
  }
  if (bytes != tensor.end - tensor.begin) {
    fail("shape " + printable(shape.dump()) + " of " + std::string(type->name) + " takes " +
         std::to_string(bytes) + " bytes, but its data_offsets " + offsets.dump() + " hold " +
         std::to_string(tensor.end - tensor.begin));
  }
  return tensor;
}

}  // namespace

size_t Entry::bytes() const {
  size_t bytes = size_of(dtype);
  for (const int64_t dim : shape) bytes *= static_cast<size_t>(dim);
  return bytes;
}

const Entry* File::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &entries_[found->second];
}

void write(const fs::path& path, const std::vector<Entry>& entries, const Metadata& metadata) {
  std::set<std::string_view> names = {kMetadataKey};
  for (const Entry& entry : entries) {
    if (!names.insert(entry.name).second) {
      throw std::logic_error("safetensors::write: the name '" + entry.name + "' is taken");
    }
  }
  const auto check_text = [&](const std::string& text) {
    if (is_utf8(text)) return;
    throw RunError("cannot write " + path.string() + ": '" + printable(text) +
                   "' is not UTF-8, and JSON would hold another text");
  };
  for (const Entry& entry : entries) check_text(entry.name);
  for (const auto& [key, value] : metadata) {
    check_text(key);
    check_text(value);
  }
  std::error_code ignored;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored)) {
    throw RunError("cannot write " + path.string() + ": it is there and is not a regular file");
  }
  // Wider types first: that alone aligns every tensor.
  std::vector<Entry> sorted = entries;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return size_of(a.dtype) > size_of(b.dtype);
  });
  const std::string header = header_of(sorted, metadata);
  std::string length(kLengthBytes, '\0');
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<char>(uint64_t{header.size()} >> (8 * i));
  }
  std::vector<std::string_view> pieces = {length, header};
  for (const Entry& entry : sorted) {
    pieces.emplace_back(static_cast<const char*>(entry.data), entry.bytes());
  }
  write_pieces(path, pieces);
}

// Makes a File in two steps: what the header describes, then the data.
class FileReader {
 public:
  explicit FileReader(const fs::path& path) : reader_(path) {
    read_header();
    check_places();
    for (const Described& tensor : tensors_) {
      if (!tensor.type.dtype) {
        file.unread_.push_back({tensor.name, std::string(tensor.type.name), tensor.shape});
        continue;
      }
      file.places_[tensor.name] = file.entries_.size();
      file.entries_.push_back({tensor.name, *tensor.type.dtype, tensor.shape});
    }
  }

  void read_data() {
    for (const Described& tensor : tensors_) {
      if (!tensor.type.dtype) continue;
      Entry& entry = file.entries_[file.data_.size()];
      std::vector<uint8_t>& data = file.data_.emplace_back(tensor.end - tensor.begin);
      reader_.read(data_start_ + tensor.begin, data.data(), data.size());
      entry.data = data.data();
    }
  }

  File file;

 private:
  std::string header_text() {
    if (reader_.size() < kLengthBytes) {
      reader_.fail(reader_.size(),
                   "the file is truncated: expected the 8 bytes of the header's length");
    }
    uint8_t length_bytes[kLengthBytes];
    reader_.read(0, length_bytes, kLengthBytes);
    uint64_t length = 0;
    for (uint64_t i = 0; i < kLengthBytes; ++i) length |= uint64_t{length_bytes[i]} << (8 * i);
    if (length < 2 || length > kMostHeaderBytes) {
      reader_.fail(0, "expected the length of a header, 2 to " + std::to_string(kMostHeaderBytes) +
                          ", found " + std::to_string(length) + "; not safetensors?");
    }
    if (length > reader_.size() - kLengthBytes) {
      reader_.fail(reader_.size(), "the file is truncated: expected a header of " +
                                       std::to_string(length) + " bytes, found " +
                                       std::to_string(reader_.size() - kLengthBytes));
    }
    std::string text(length, '\0');
    reader_.read(kLengthBytes, text.data(), length);
    data_start_ = kLengthBytes + length;
    return text;
  }

  void read_header() {
    const json header = parse_header(reader_, header_text());
    for (const auto& [name, value] : header.items()) {
      if (name != kMetadataKey) {
        tensors_.push_back(describe(reader_, name, value));
        continue;
      }
      if (!value.is_object()) reader_.fail(kLengthBytes, "__metadata__ is not a JSON object");
      for (const auto& [key, entry] : value.items()) {
        if (!entry.is_string()) {
          reader_.fail(kLengthBytes, "__metadata__: '" + printable(key) + "' is not text");
        }
        file.metadata_[key] = entry.get<std::string>();
      }
    }
  }

  // Sorts the tensors by their places. Throws if there is a hole or an overlap.
  void check_places() {
    std::sort(tensors_.begin(), tensors_.end(), [](const Described& a, const Described& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    uint64_t end = 0;  // of the data described so far
    for (const Described& tensor : tensors_) {
      if (tensor.begin != end) {
        reader_.fail(data_start_ + std::min(tensor.begin, end),
                     "tensor '" + printable(tensor.name) + "' begins at byte " +
                         std::to_string(tensor.begin) +
                         " of the data, but the one before it ends at byte " + std::to_string(end));
      }
      end = tensor.end;
    }
    const uint64_t found = reader_.size() - data_start_;
    if (end == found) return;
    reader_.fail(data_start_ + std::min(end, found),
                 std::string(found < end ? "the file is truncated" : "there are bytes left over") +
                     ": expected " + std::to_string(end) + " bytes of tensors, found " +
                     std::to_string(found));
  }

  const Reader reader_;
  std::vector<Described> tensors_;
  uint64_t data_start_ = 0;
};

File read(const fs::path& path, const std::function<void(const File& described)>& check) {
  FileReader reader(path);
  if (check) check(reader.file);
  reader.read_data();
  return std::move(reader.file);
}

File describe(const fs::path& path) { return std::move(FileReader(path).file); }

std::string misfit(const File& file, const std::string& name, const Shape& shape) {
  const std::string here = shape.to_string() + " float32";
  const auto compared = [&](const std::vector<int64_t>& dims, std::string_view type) {
    std::string there;
    for (const int64_t dim : dims) there += (there.empty() ? "" : "x") + std::to_string(dim);
    there = (there.empty() ? "scalar" : there) + " " + std::string(type);
    return there == here ? "" : "'" + name + "' is " + there + " there, but " + here + " here";
  };
  if (const Entry* entry = file.find(name)) return compared(entry->shape, to_string(entry->dtype));
  for (const Unread& tensor : file.unread()) {
    if (tensor.name == name) return compared(tensor.shape, tensor.type);
  }
  return "";
}

std::string names_text(std::vector<std::string> names) {
  constexpr size_t kMostNamed = 20;
  const size_t all = names.size();
  if (all > kMostNamed) names.resize(kMostNamed);
  return join(names) + (all > kMostNamed ? ", ... (" + std::to_string(all) + " in all)" : "");
}

}  // namespace duet::safetensors
