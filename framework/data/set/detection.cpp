// detection: pictures with boxes around what they show, each of a class: the fields `images`, `boxes`
// and `box_counts`. Annotations are in COCO's JSON form; another form is a function that makes
// Annotations (data/set/boxed_pictures.h) of its files.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/printable.h"
#include "data/format/coco.h"
#include "data/set/dataset_file.h"
#include "data/set/dataset_types.h"
#include "data/set/picture_folder.h"
#include "data/set/validation_split.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

struct DetectionKeys {
  PictureFolders files;                   // `train` and `validation` are annotations
  std::string images, validation_images;  // folders of their pictures
  int64_t classes = 0;
  BoxRules rules;
};

std::string names_of(const std::vector<std::string>& classes) {
  std::vector<std::string> some;
  for (const std::string& name : classes) {
    if (some.size() < 10) some.push_back(printable(name));
  }
  return " (" + join(some) + (classes.size() > 10 ? ", ..." : "") + ")";
}

void check_classes(const fs::path& file, const std::vector<std::string>& found, int64_t classes) {
  if (std::ssize(found) == classes) return;
  throw DataError(file.string() + ": has " + std::to_string(found.size()) +
                  (found.size() == 1 ? " category" : " categories") + names_of(found) +
                  ", and data.classes is " + std::to_string(classes) + "; make them agree");
}

Dataset load(const DatasetInfo& info, const DetectionKeys& keys, const fs::path& data_dir) {
  const FoundFolders found = find_folders(keys.files, data_dir);
  Dataset data{info};
  data.source = found.folder.string();
  std::vector<std::string>& names = data.records[0].elements;
  const auto read = [&](const fs::path& annotations, const std::string& images) {
    const fs::path file = plain_or_packed(annotations);
    const Annotations all = read_coco(file);
    if (names.empty()) {
      check_classes(file, all.classes, keys.classes);
      names = all.classes;
    } else if (names != all.classes) {
      throw DataError(file.string() + ": its categories" + names_of(all.classes) +
                      " are not those of the training data" + names_of(names));
    }
    const fs::path folder = (found.folder / images).lexically_normal();
    return read_boxed_pictures(all, file, folder, keys.rules, data);
  };
  data.train = read(found.train, keys.images);
  if (found.validation) {
    data.validation = read(*found.validation, keys.validation_images);
  } else {
    hold_out(data, keys.files.split);
  }
  return data;
}

DatasetLoader read_detection(ConfigReader& reader) {
  DetectionKeys keys;
  keys.files = read_picture_folders(reader, "detection", "train.json", "file");
  keys.images = reader.text("images", "images");
  if (keys.files.validation) {
    keys.validation_images = reader.text("validation_images", keys.images);
  } else {
    reader.reject("validation_images", "it is the folder of the pictures that 'validation' names");
  }
  keys.classes = reader.integer("classes", {}, 1, 1 << 20);
  keys.rules.most = reader.integer("max_boxes", 100, 1, 1 << 16);
  keys.rules.pictures = read_picture_rules(reader);
  const PictureRules& pictures = keys.rules.pictures;
  const DatasetInfo info{.name = "detection",
                         .channels = pictures.channels,
                         .height = pictures.height,
                         .width = pictures.width,
                         .records = {boxes_field(keys.rules, keys.classes)}};
  return {info, [info, keys](const fs::path& data_dir) { return load(info, keys, data_dir); },
          fit_by(pictures)};
}

}  // namespace

const DatasetType& detection_type() {
  static const DatasetType type = {
      .name = "detection",
      .summary = "your own JPEG and PNG pictures with boxes and their classes (COCO's JSON)",
      .read = read_detection,
      .keys_name_files = true,
      .pictures = true};
  return type;
}

}  // namespace duet
