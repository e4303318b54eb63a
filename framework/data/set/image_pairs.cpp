// image_pairs: pairs of images made of any folder of pictures, for networks that make pictures: the
// target is a patch of a picture, and the image is the same patch of the picture degraded
// (data/set/degrade.h). A picture is cut at the right and at the bottom to multiples of the scale,
// degraded whole, and then cut into patches.
#include <algorithm>
#include <cstring>
#include <string>

#include "core/error.h"
#include "core/parallel.h"
#include "data/batch/data_memory.h"
#include "data/format/image.h"
#include "data/format/image_file.h"
#include "data/set/dataset_types.h"
#include "data/set/degrade.h"
#include "data/set/image_set.h"
#include "data/set/picture_folder.h"
#include "data/set/validation_split.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostPatch = 4096;

struct PairKeys {
  PictureFolders folders;
  Degradation degrade;
  int64_t channels = 3;
  bool limited = false;           // luma: limited
  int64_t patch = 0, stride = 0;  // of the image, not of the target
  bool skip = false;              // on_error: skip
};

// The pairs of one picture, or why there are none.
struct Pairs {
  std::vector<uint8_t> images, targets;
  int64_t count = 0;
  std::string error;
};

void add_patch(const Image& image, int64_t top, int64_t left, int64_t side,
               std::vector<uint8_t>* to) {
  const std::vector<uint8_t> planes = planes_of(crop(image, top, left, side, side));
  to->insert(to->end(), planes.begin(), planes.end());
}

Image in_channels(const Image& image, const PairKeys& keys) {
  if (keys.channels == 3) return to_rgb(image);
  return keys.limited ? to_limited_luma(image) : to_grey(image);
}

Pairs pairs_of(const fs::path& file, const PairKeys& keys, uint64_t number) try {
  const Image read = read_image_file(file);
  const int64_t scale = keys.degrade.scale;
  if (std::min(read.height, read.width) < keys.patch * scale) {
    return {.error = file.string() + ": is " + size_text(read.height, read.width) +
                     " pixels (width x height), smaller than a patch of " +
                     size_text(keys.patch * scale, keys.patch * scale) +
                     (scale > 1 ? " (data.patch times data.degrade.scale)" : " (data.patch)")};
  }
  const Image whole = in_channels(read, keys);
  const Image target = crop(whole, 0, 0, whole.height / scale * scale, whole.width / scale * scale);
  const Image image = degraded(target, keys.degrade, number);
  Pairs pairs;
  for (int64_t y = 0; y + keys.patch <= image.height; y += keys.stride) {
    for (int64_t x = 0; x + keys.patch <= image.width; x += keys.stride) {
      add_patch(image, y, x, keys.patch, &pairs.images);
      add_patch(target, y * scale, x * scale, keys.patch * scale, &pairs.targets);
      ++pairs.count;
    }
  }
  return pairs;
} catch (const DataError& error) {
  return {.error = error.what()};
} catch (const std::exception& error) {
  return {.error = file.string() + ": " + message_of(error)};
}

// `first` is the number of the first picture among all of the data set.
Split read_pairs(const fs::path& folder, const PairKeys& keys, uint64_t first, Dataset& data) {
  const std::vector<fs::path> files = pictures_below(folder);
  if (files.empty()) throw DataError(folder.string() + ": no JPEG or PNG picture is in it");
  std::vector<Pairs> all(files.size());
  parallel_for(std::ssize(files), std::ssize(files) * kWorthSharing, [&](int64_t i) {
    const auto number = static_cast<size_t>(i);
    all[number] = pairs_of(files[number], keys, first + number);
  });
  Split split;
  auto targets = std::make_shared<Split>();
  std::vector<std::string> unusable;
  for (Pairs& pairs : all) {
    if (!pairs.error.empty()) unusable.push_back(pairs.error);
    split.count += pairs.count;
    make_room(split.images, pairs.images.size(), folder.string());
    make_room(targets->images, pairs.targets.size(), folder.string());
    split.images.insert(split.images.end(), pairs.images.begin(), pairs.images.end());
    targets->images.insert(targets->images.end(), pairs.targets.begin(), pairs.targets.end());
    pairs = {};
  }
  leave_out(unusable, files.size(), "cannot be used", keys.skip, data);
  targets->count = split.count;
  split.targets = std::move(targets);
  return split;
}

Dataset load(const DatasetInfo& info, const PairKeys& keys, const fs::path& data_dir) {
  const FoundFolders found = find_folders(keys.folders, data_dir);
  Dataset data{info};
  data.source = found.folder.string();
  data.train = read_pairs(found.train, keys, 0, data);
  if (found.validation) {
    constexpr uint64_t kValidation = uint64_t{1} << 32;  // noise of its own
    data.validation = read_pairs(*found.validation, keys, kValidation, data);
  } else {
    hold_out(data, keys.folders.split);
  }
  return data;
}

DatasetLoader read_image_pairs(ConfigReader& reader) {
  PairKeys keys;
  keys.folders = read_picture_folders(reader, "image_pairs");
  keys.channels = reader.integer("channels", 3, 1, 3);
  if (keys.channels == 2) reader.error("channels", "expected 1 (luminance) or 3 (colour)");
  if (keys.channels == 1) {
    keys.limited = reader.choice("luma", {"full", "limited"}, "full") == "limited";
  } else {
    reader.reject("luma", "belongs to channels: 1");
  }
  keys.degrade = read_degradation(reader);
  keys.patch = reader.integer("patch", {}, 1, kMostPatch / keys.degrade.scale);
  keys.stride = reader.integer("stride", keys.patch, 1, kMostPatch);
  keys.skip = reader.choice("on_error", {"stop", "skip"}, "stop") == "skip";
  const int64_t side = keys.patch * keys.degrade.scale;
  const auto channels = static_cast<size_t>(keys.channels);
  const DatasetInfo info{.name = "image_pairs",
                         .channels = keys.channels,
                         .height = keys.patch,
                         .width = keys.patch,
                         .mean = std::vector<double>(channels, 0.0),
                         .stddev = std::vector<double>(channels, 1.0),
                         .target = {keys.channels, side, side}};
  return {info, [info, keys](const fs::path& data_dir) { return load(info, keys, data_dir); },
          [keys](const Image& picture) { return in_channels(picture, keys); }};
}

}  // namespace

const DatasetType& image_pairs_type() {
  static const DatasetType type = {
      .name = "image_pairs",
      .summary = "pictures of a folder and what a degradation makes of them, to be undone",
      .read = read_image_pairs,
      .keys_name_files = true};
  return type;
}

}  // namespace duet
