// image_folder: pictures in a folder a class, as torchvision's ImageFolder takes them: classes are
// numbered in the order of their names, pictures lie anywhere below, and other files are passed by.
// Hidden files and folders are, too. There the formats that are read end: BMP, WebP and others, which
// torchvision reads, are refused.
#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/printable.h"
#include "data/set/dataset_types.h"
#include "data/set/image_set.h"
#include "data/set/picture_folder.h"
#include "data/set/validation_split.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

void add_pictures(const fs::path& folder, int32_t label, std::vector<LabelledFile>& files) {
  for (const fs::path& file : pictures_below(folder)) files.push_back({file, label});
}

struct FolderKeys {
  PictureFolders folders;
  PictureRules rules;
};

void check_training_classes(const fs::path& folder, const std::vector<std::string>& found,
                            int64_t classes) {
  if (static_cast<int64_t>(found.size()) == classes) return;
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(found.size(), 10); ++i) {
    names.push_back(printable(found[i]));
  }
  throw DataError(folder.string() + ": has " + std::to_string(found.size()) +
                  (found.size() == 1 ? " folder" : " folders") + ", one for each class (" +
                  join(names) + (found.size() > 10 ? ", ..." : "") + "), and data.classes is " +
                  std::to_string(classes) +
                  (found.size() < 2 ? "; is it the folder above those of the classes? data.train "
                                      "names it"
                                    : "; make them agree"));
}

std::vector<LabelledFile> training_files(const fs::path& folder,
                                         const std::vector<std::string>& classes) {
  std::vector<LabelledFile> files;
  for (size_t i = 0; i < classes.size(); ++i) {
    const size_t before = files.size();
    add_pictures(folder / classes[i], static_cast<int32_t>(i), files);
    if (files.size() > before) continue;
    throw DataError((folder / classes[i]).string() +
                    ": no JPEG or PNG picture is in it; every folder is a class and needs some");
  }
  return files;
}

// Folders of classes that were not trained would shift the numbers of others.
std::vector<LabelledFile> validation_files(const fs::path& folder,
                                           const std::vector<std::string>& classes) {
  std::vector<LabelledFile> files;
  for (const std::string& name : folders_in(folder)) {
    const auto found = std::find(classes.begin(), classes.end(), name);
    if (found == classes.end()) {
      throw DataError((folder / name).string() + ": is of no class of the training data" +
                      did_you_mean(name, classes));
    }
    add_pictures(folder / name, static_cast<int32_t>(found - classes.begin()), files);
  }
  return files;
}

Dataset load(const DatasetInfo& info, const FolderKeys& keys, const fs::path& data_dir) {
  const FoundFolders found = find_folders(keys.folders, data_dir);
  Dataset data{info};
  data.source = found.folder.string();
  data.class_names = folders_in(found.train);
  check_training_classes(found.train, data.class_names, info.classes);
  data.train = read_labelled_files(training_files(found.train, data.class_names), keys.rules, data);
  if (found.validation) {
    data.validation = read_labelled_files(validation_files(*found.validation, data.class_names),
                                          keys.rules, data);
  } else {
    hold_out(data, keys.folders.split);
  }
  return data;
}

DatasetLoader read_image_folder(ConfigReader& reader) {
  FolderKeys keys;
  keys.folders = read_picture_folders(reader, "image_folder");
  const int64_t classes = reader.integer("classes", {}, 2, 1 << 20);
  keys.rules = read_picture_rules(reader);
  const DatasetInfo info{"image_folder", keys.rules.channels, keys.rules.height, keys.rules.width,
                         classes};
  return {info, [info, keys](const fs::path& data_dir) { return load(info, keys, data_dir); },
          fit_by(keys.rules)};
}

}  // namespace

const DatasetType& image_folder_type() {
  static const DatasetType type = {
      .name = "image_folder",
      .summary = "your own JPEG and PNG pictures, a folder a class (torchvision's ImageFolder)",
      .read = read_image_folder,
      .keys_name_files = true,
      .pictures = true};
  return type;
}

}  // namespace duet
