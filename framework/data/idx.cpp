#include "data/idx.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>
#include <string>

#include "core/error.h"
#include "data/dataset_file.h"
#include "device/device.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr uint8_t kUnsignedByte = 0x08;  // IDX's code for the only element type that MNIST uses
constexpr size_t kTooMuch = size_t{1} << 62;
constexpr size_t kChunk = size_t{1} << 20;  // of data whose size nothing but the header tells

[[noreturn]] void fail(const fs::path& file, size_t offset, const std::string& what) {
  throw DataError(file.string() + ": offset " + std::to_string(offset) +
                  (file.extension() == ".gz" ? " of the unpacked data: " : ": ") + what);
}

std::string hex(uint8_t byte) {
  char text[8];
  std::snprintf(text, sizeof text, "0x%02x", byte);
  return text;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

// The file itself, or the same with .gz. REQUIRES: one of them was there a moment ago.
fs::path existing(const fs::path& file) {
  std::error_code ignored;
  return fs::exists(file, ignored) ? file : fs::path(file.string() + ".gz");
}

Split load_split(const fs::path& images_file, const fs::path& labels_file,
                 const DatasetInfo& info) {
  IdxArray images = read_idx(images_file, 3, [&](const std::vector<int64_t>& dims) {
    if (dims[1] != info.height || dims[2] != info.width) {
      fail(images_file, 8,
           "expected images of " + dims_text({info.height, info.width}) + " pixels, found " +
               dims_text({dims[1], dims[2]}));
    }
    if (dims[0] == 0) fail(images_file, 4, "expected at least one image, found none");
  });
  const int64_t count = images.dims[0];
  const IdxArray labels = read_idx(labels_file, 1, [&](const std::vector<int64_t>& dims) {
    if (dims[0] == count) return;
    fail(labels_file, 4,
         "expected " + std::to_string(count) + " labels, one for each image of " +
             images_file.string() + ", found " + std::to_string(dims[0]));
  });
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= info.classes) {
      fail(labels_file, 8 + i,
           "expected a label from 0 to " + std::to_string(info.classes - 1) + ", found " +
               std::to_string(labels.bytes[i]));
    }
  }
  return {count, std::move(images.bytes), {labels.bytes.begin(), labels.bytes.end()}};
}

// The sizes that the header announces.
std::vector<int64_t> read_header(const fs::path& path, DatasetFile& file, int rank) {
  std::array<uint8_t, 4 + 4 * 255> bytes;
  const size_t header = 4 + 4 * static_cast<size_t>(rank);
  size_t size = 0;
  const auto need = [&](size_t wanted) {
    size += file.read(bytes.data() + size, wanted - size);
    if (size < wanted) {
      fail(path, size,
           "the file is truncated: expected a header of " + std::to_string(header) + " bytes");
    }
  };
  need(4);
  if (bytes[0] != 0 || bytes[1] != 0) {
    fail(path, 0, "expected IDX data (0x00 0x00), found " + hex(bytes[0]) + " " + hex(bytes[1]));
  }
  if (bytes[2] != kUnsignedByte) {
    fail(path, 2, "expected elements of unsigned bytes (0x08), found type " + hex(bytes[2]));
  }
  if (bytes[3] != rank) {
    fail(path, 3,
         "expected " + std::to_string(rank) + " dimension" + (rank == 1 ? "" : "s") + ", found " +
             std::to_string(bytes[3]));
  }
  need(header);
  std::vector<int64_t> dims;
  for (size_t i = 4; i < header; i += 4) {
    dims.push_back(uint32_t{bytes[i]} << 24 | uint32_t{bytes[i + 1]} << 16 |
                   uint32_t{bytes[i + 2]} << 8 | bytes[i + 3]);
  }
  return dims;
}

// `expected` bytes, and the end of the file.
std::vector<uint8_t> read_data(DatasetFile& file, size_t expected,
                               const std::function<void(uint64_t found, bool more)>& refuse) {
  std::vector<uint8_t> bytes;
  while (bytes.size() < expected) {
    const size_t size = bytes.size();
    const size_t wanted = std::min(expected - size, file.size() ? expected : kChunk);
    bytes.resize(size + wanted);
    const size_t got = file.read(bytes.data() + size, wanted);
    if (got < wanted) refuse(size + got, false);
  }
  uint8_t beyond = 0;
  if (file.read(&beyond, 1) > 0) refuse(expected, true);
  return bytes;
}

}  // namespace

IdxArray read_idx(const fs::path& path, int rank,
                  const std::function<void(const std::vector<int64_t>& dims)>& check) {
  DatasetFile file(path);
  IdxArray array{read_header(path, file, rank), {}};
  const size_t header = 4 + 4 * static_cast<size_t>(rank);
  size_t expected = 1;
  for (const int64_t size : array.dims) {
    const auto dim = static_cast<size_t>(size);
    // A corrupt header may ask for more than 64 bits can count; that is too much all the same.
    expected = dim != 0 && expected > kTooMuch / dim ? kTooMuch : expected * dim;
  }
  const auto refuse = [&](uint64_t found, bool more) {
    fail(path, header + std::min<uint64_t>(found, expected),
         std::string(found < expected ? "the file is truncated" : "there are bytes left over") +
             ": expected " + dims_text(array.dims) + " bytes of data, found " +
             (more ? "more" : std::to_string(found)));
  };
  if (file.size() && *file.size() - header != expected) refuse(*file.size() - header, false);
  if (check) check(array.dims);
  const auto too_large = [&] {
    fail(path, 4,
         "expected no more data than this machine's memory of " +
             std::to_string(host_memory() >> 20) + " MiB holds, found " + dims_text(array.dims) +
             " bytes");
  };
  if (expected > host_memory()) too_large();
  try {
    array.bytes = read_data(file, expected, refuse);
  } catch (const std::bad_alloc&) {
    too_large();
  }
  return array;
}

const std::vector<std::string>& idx_dataset_files() {
  static const std::vector<std::string> files = {
      "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
      "t10k-labels-idx1-ubyte"};
  return files;
}

Dataset load_idx_dataset(const DatasetType& type, const DatasetInfo& info,
                         const fs::path& data_dir) {
  std::vector<std::string> looked_in;
  const fs::path folder = find_dataset_folder(type, data_dir, &looked_in);
  if (folder.empty()) {
    throw DataError("data set " + std::string(type.name) + " was not found. Looked in:\n  " +
                    join(looked_in, "\n  ") + "\n" + std::string(type.advice) +
                    (type.advice.empty() ? "Put its" : " Or put its") + " files (" +
                    join(type.files) +
                    "; plain or .gz) in a folder and name that with --data DIR or with the "
                    "environment variable DUET_DATA.");
  }
  const auto file = [&](size_t i) { return existing(folder / idx_dataset_files()[i]); };
  Dataset dataset{info};
  dataset.train = load_split(file(0), file(1), info);
  dataset.validation = load_split(file(2), file(3), info);
  dataset.source = folder.string();
  return dataset;
}

}  // namespace duet
