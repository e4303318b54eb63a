#include "data/format/idx.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "core/error.h"
#include "core/number_text.h"
#include "data/set/dataset_file.h"
#include "device/device.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr uint8_t kUnsignedByte = 0x08;  // IDX's code for the only element type that MNIST uses
constexpr size_t kTooMuch = size_t{1} << 62;
// Of data whose size nothing but the header tells.
constexpr size_t kUnsizedChunk = size_t{1} << 20;

[[noreturn]] void fail(const fs::path& file, size_t offset, const std::string& what) {
  throw DataError(file.string() + ": offset " + std::to_string(offset) +
                  (file.extension() == ".gz" ? " of the unpacked data: " : ": ") + what);
}

std::string hex(uint8_t byte) { return printed("0x%02x", byte); }

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text;
  for (int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
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

// What dimensions stand for. A corrupt header may ask for more than 64 bits can count; that is too
// much all the same.
size_t bytes_of(const std::vector<int64_t>& dims) {
  size_t bytes = 1;
  for (const int64_t size : dims) {
    const auto dim = static_cast<size_t>(size);
    bytes = dim != 0 && bytes > kTooMuch / dim ? kTooMuch : bytes * dim;
  }
  return bytes;
}

size_t header_bytes(const std::vector<int64_t>& dims) { return 4 + 4 * dims.size(); }

[[noreturn]] void refuse_size(const fs::path& path, const std::vector<int64_t>& dims,
                              uint64_t found, bool more) {
  const size_t expected = bytes_of(dims);
  fail(path, header_bytes(dims) + std::min<uint64_t>(found, expected),
       std::string(found < expected ? "the file is truncated" : "there are bytes left over") +
           ": expected " + dims_text(dims) + " bytes of data, found " +
           (more ? "more" : std::to_string(found)));
}

// As far as the size shows without reading.
void check_size(const fs::path& path, const DatasetFile& file, const std::vector<int64_t>& dims) {
  if (!file.size()) return;
  const uint64_t found = *file.size() - header_bytes(dims);
  if (found != bytes_of(dims)) refuse_size(path, dims, found, false);
}

// `expected` bytes, and the end of the file.
std::vector<uint8_t> read_data(DatasetFile& file, size_t expected,
                               const std::function<void(uint64_t found, bool more)>& refuse) {
  std::vector<uint8_t> bytes;
  while (bytes.size() < expected) {
    const size_t size = bytes.size();
    const size_t wanted = std::min(expected - size, file.size() ? expected : kUnsizedChunk);
    bytes.resize(size + wanted);
    const size_t got = file.read(bytes.data() + size, wanted);
    if (got < wanted) refuse(size + got, false);
  }
  uint8_t beyond = 0;
  if (file.read(&beyond, 1) > 0) refuse(expected, true);
  return bytes;
}

using Check = std::function<void(const std::vector<int64_t>& dims)>;

// What comes before the data of one file.
void check_header(const fs::path& path, int rank, const Check& check) {
  DatasetFile file(path);
  const std::vector<int64_t> dims = read_header(path, file, rank);
  check_size(path, file, dims);
  check(dims);
}

// What the headers have to say, to be held to before any data is read.
void check_images(const IdxFiles& files, const std::vector<int64_t>& dims) {
  if (!std::equal(files.shape.begin(), files.shape.end(), dims.begin() + 1)) {
    fail(files.images, 8,
         "expected images of " + dims_text(files.shape) + " pixels, found " +
             dims_text({dims.begin() + 1, dims.end()}));
  }
  if (dims[0] == 0) fail(files.images, 4, "expected at least one image, found none");
}

void check_labels(const IdxFiles& files, const std::vector<int64_t>& dims, int64_t count) {
  if (dims[0] == count) return;
  fail(files.labels, 4,
       "expected " + std::to_string(count) + " labels, one for each image of " +
           files.images.string() + ", found " + std::to_string(dims[0]));
}

int rank_of(const IdxFiles& files) { return static_cast<int>(files.shape.size()) + 1; }

}  // namespace

void check_idx_headers(const IdxFiles& files) {
  int64_t count = 0;
  check_header(files.images, rank_of(files), [&](const std::vector<int64_t>& dims) {
    check_images(files, dims);
    count = dims[0];
  });
  check_header(files.labels, 1,
               [&](const std::vector<int64_t>& dims) { check_labels(files, dims, count); });
}

// The headers are looked at again: the files may have been replaced.
Split read_idx_split(const IdxFiles& files, int64_t classes) {
  IdxArray images = read_idx(files.images, rank_of(files),
                             [&](const std::vector<int64_t>& dims) { check_images(files, dims); });
  const int64_t count = images.dims[0];
  const IdxArray labels = read_idx(
      files.labels, 1, [&](const std::vector<int64_t>& dims) { check_labels(files, dims, count); });
  for (size_t i = 0; i < labels.bytes.size(); ++i) {
    if (labels.bytes[i] >= classes) {
      fail(files.labels, 8 + i,
           "expected a label from 0 to " + std::to_string(classes - 1) + ", found " +
               std::to_string(labels.bytes[i]));
    }
  }
  return {count, std::move(images.bytes), {labels.bytes.begin(), labels.bytes.end()}};
}

IdxArray read_idx(const fs::path& path, int rank,
                  const std::function<void(const std::vector<int64_t>& dims)>& check) {
  DatasetFile file(path);
  IdxArray array{read_header(path, file, rank), {}};
  check_size(path, file, array.dims);
  if (check) check(array.dims);
  const auto too_large = [&] {
    fail(path, 4,
         "expected no more data than this machine's memory of " +
             std::to_string(host_memory() >> 20) + " MiB holds, found " + dims_text(array.dims) +
             " bytes");
  };
  const size_t expected = bytes_of(array.dims);
  if (expected > host_memory()) too_large();
  try {
    array.bytes = read_data(file, expected, [&](uint64_t found, bool more) {
      refuse_size(path, array.dims, found, more);
    });
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
  const fs::path folder = data_folder(type.data_files(), type.how_to_get(), data_dir);
  const auto files = [&](size_t first) {
    const auto file = [&](size_t i) { return plain_or_packed(folder / idx_dataset_files()[i]); };
    return IdxFiles{file(first), file(first + 1), {info.height, info.width}};
  };
  Dataset dataset{info};
  for (const size_t first : {0, 2}) check_idx_headers(files(first));
  dataset.train = read_idx_split(files(0), info.classes);
  dataset.validation = read_idx_split(files(2), info.classes);
  dataset.source = folder.string();
  return dataset;
}

}  // namespace duet
