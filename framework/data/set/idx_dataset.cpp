// idx: images and labels in any IDX files.
#include <cmath>

#include "data/format/idx.h"
#include "data/set/dataset_file.h"
#include "data/set/dataset_types.h"
#include "data/set/validation_split.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

struct IdxKeys {
  std::string folder;
  std::vector<std::string> files;  // images and labels; then those of the validation data, or none
  std::vector<int64_t> shape;
  ValidationSplit split;
};

std::vector<int64_t> read_shape(ConfigReader& reader) {
  std::vector<int64_t> shape;
  bool right = true;
  for (const double size : reader.numbers("shape", {})) {
    right = right && size >= 1 && size <= 1 << 20 && size == std::floor(size);
    shape.push_back(right ? static_cast<int64_t>(size) : 1);
  }
  if (right && (shape.size() == 2 || shape.size() == 3)) return shape;
  reader.error("shape", "expected [height, width] or [channels, height, width]");
  return {1, 1};
}

Dataset load(const DatasetInfo& info, const IdxKeys& keys, const fs::path& data_dir) {
  const fs::path folder = data_folder({keys.folder, keys.files}, "", data_dir);
  const auto files = [&](size_t i) {
    return IdxFiles{plain_or_packed(folder / keys.files[i]),
                    plain_or_packed(folder / keys.files[i + 1]), keys.shape};
  };
  Dataset data{info};
  data.source = folder.string();
  for (size_t i = 0; i < keys.files.size(); i += 2) check_idx_headers(files(i));
  data.train = read_idx_split(files(0), info.classes);
  if (keys.files.size() > 2) {
    data.validation = read_idx_split(files(2), info.classes);
  } else {
    hold_out(data, keys.split);
  }
  return data;
}

DatasetLoader read_idx_dataset(ConfigReader& reader) {
  IdxKeys keys;
  keys.folder = reader.text("folder", "idx");
  keys.files = {reader.text("images"), reader.text("labels")};
  if (reader.has("validation_images") || reader.has("validation_labels")) {
    for (const char* key : {"validation_images", "validation_labels"}) {
      keys.files.push_back(reader.text(key));
    }
    reader.reject("validation_split", "there are validation images");
  } else {
    for (const char* key : {"validation_images", "validation_labels"}) reader.raw(key);
    keys.split = read_validation_split(reader);
  }
  keys.shape = read_shape(reader);
  const int64_t classes = reader.integer("classes", {}, 2, 256);
  const bool grey = keys.shape.size() == 2;
  const DatasetInfo info{"idx",
                         grey ? 1 : keys.shape[0],
                         keys.shape[grey ? 0 : 1],
                         keys.shape[grey ? 1 : 2],
                         classes,
                         {},
                         {},
                         numbered_classes(classes)};
  return {info, [info, keys](const fs::path& data_dir) { return load(info, keys, data_dir); }};
}

}  // namespace

const DatasetType& idx_type() {
  static const DatasetType type = {.name = "idx",
                                   .summary = "your own images and labels in IDX files, as MNIST's",
                                   .read = read_idx_dataset,
                                   .keys_name_files = true};
  return type;
}

}  // namespace duet
