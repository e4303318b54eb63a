// Tiny-ImageNet (Stanford's CS231n, 2015): 100000 + 10000 colour images of 64x64, 200 classes. Its
// own folders: wnids.txt names the classes, words.txt says what they are called, train/ID/images
// holds the training images, val/images the others with their classes in val/val_annotations.txt.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "core/error.h"
#include "core/printable.h"
#include "data/format/annotations.h"
#include "data/format/cifar.h"
#include "data/set/dataset_types.h"
#include "data/set/image_set.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

std::vector<LabelledFile> pictures_in(const fs::path& folder, int32_t label) {
  std::vector<LabelledFile> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (is_picture_name(it->path())) files.push_back({it->path(), label});
  }
  if (error) throw DataError(folder.string() + ": cannot be read: " + error.message());
  if (files.empty()) throw DataError(folder.string() + ": no picture is in it");
  std::sort(files.begin(), files.end(),
            [](const LabelledFile& a, const LabelledFile& b) { return a.file < b.file; });
  return files;
}

// Every picture has a line and every line a picture, but with `skip` for those that are not there.
std::vector<LabelledFile> validation_files(const fs::path& folder,
                                           const std::vector<std::string>& ids, bool skip,
                                           Dataset& data) {
  const fs::path annotations = folder / "val_annotations.txt";
  std::set<std::string> there;
  for (const LabelledFile& file : pictures_in(folder / "images", 0)) {
    there.insert(file.file.filename().string());
  }
  std::vector<LabelledFile> files;
  int64_t missing = 0;
  for (const Annotation& annotation : read_annotations(annotations, ids)) {
    if (there.erase(annotation.picture)) {
      files.push_back({folder / "images" / annotation.picture, annotation.label});
    } else {
      const std::string what = annotations.string() + ":" + std::to_string(annotation.line) + ": " +
                               (folder / "images" / annotation.picture).string() + " is not there";
      if (!skip) throw DataError(what + "; data.on_error: skip leaves such lines out");
      data.left_out.add(what);
      ++missing;
    }
  }
  if (!there.empty()) {
    throw DataError((folder / "images" / *there.begin()).string() + ": has no line in " +
                    annotations.string() + ", so its class is not known; add it, or move it away");
  }
  if (missing > 0) {
    data.warnings.push_back(annotations.string() + ": " + std::to_string(missing) +
                            " lines are left out, whose pictures are not there");
  }
  return files;
}

Dataset load(const DatasetInfo& info, const PictureRules& rules, const fs::path& data_dir) {
  const DatasetType& type = tiny_imagenet_type();
  const fs::path folder = data_folder(type.data_files(), type.how_to_get(), data_dir);
  Dataset data{info};
  data.source = folder.string();
  std::vector<std::string> ids = read_class_names(folder / "wnids.txt", info.classes);
  std::sort(ids.begin(), ids.end());
  for (const std::string& id : ids) {
    if (id[0] == '.' || id.find('/') != std::string::npos) {
      throw DataError((folder / "wnids.txt").string() + ": '" + printable(id) +
                      "' cannot be the name of a folder");
    }
  }
  data.class_names = read_words(folder / "words.txt", ids);
  std::vector<LabelledFile> train;
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto files = pictures_in(folder / "train" / ids[i] / "images", static_cast<int32_t>(i));
    train.insert(train.end(), files.begin(), files.end());
  }
  const auto validation = validation_files(folder / "val", ids, rules.skip, data);
  data.train = read_labelled_files(train, rules, data);
  data.validation = read_labelled_files(validation, rules, data);
  return data;
}

}  // namespace

const DatasetType& tiny_imagenet_type() {
  static const DatasetType type = {
      "tiny_imagenet",
      "100000 + 10000 colour images of 64x64, 200 classes of ImageNet",
      [](ConfigReader& reader) {
        const PictureRules rules = read_picture_rules(reader, 64);
        DatasetInfo info{"tiny_imagenet", rules.channels, rules.height, rules.width,
                         reader.integer("classes", 200, 2, 1 << 20)};
        if (rules.channels == 3) {
          info.mean = {0.4802, 0.4481, 0.3975};
          info.stddev = {0.2770, 0.2691, 0.2821};
        }
        return DatasetLoader{info,
                             [info, rules](const fs::path& dir) { return load(info, rules, dir); },
                             fit_by(rules)};
      },
      {"wnids.txt", "words.txt", "train", "val/val_annotations.txt", "val/images"},
      "",
      "",
      "tiny-imagenet-200",
      {{"http://cs231n.stanford.edu"},
       {{"tiny-imagenet-200.zip", 248100043,
         "6198c8ae015e2b3e007c7841da39ec069199b9aa3bfa943a462022fe5e43c821"}}},
      false,
      true};
  return type;
}

}  // namespace duet
