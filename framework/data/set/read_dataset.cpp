// What every data set has beside its own keys.
#include <algorithm>
#include <cmath>
#include <string>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "data/set/dataset.h"

namespace duet {
namespace {

std::vector<std::string> names_of_picture_sets() {
  std::vector<std::string> names;
  for (const DatasetType* type : dataset_types()) {
    if (type->pictures) names.emplace_back(type->name);
  }
  return names;
}

// Reads `mean` and `stddev` into `info`: a number a channel, or one for all.
void read_normalisation(ConfigReader& reader, DatasetInfo& info) {
  const bool given = reader.raw("mean");
  if (given != static_cast<bool>(reader.raw("stddev"))) {
    return reader.error(given ? "mean" : "stddev", "give mean and stddev, or neither");
  }
  if (!given) return;
  const auto channels = static_cast<size_t>(info.channels);
  const auto read = [&](const char* key) {
    std::vector<double> values = reader.numbers(key, {});
    if (values.size() == 1) values.resize(channels, values[0]);
    if (values.size() != channels && channels > 0) {
      reader.error(key, (channels == 1 ? "expected 1 number"
                                       : "expected 1 number, or " + std::to_string(channels) +
                                             ", one for each channel") +
                            std::string(", found ") + std::to_string(values.size()));
    }
    for (const double value : values) {
      if (std::isfinite(value) && std::fabs(value) < 1e30) continue;
      reader.error(key, "the numbers must be finite");
      break;
    }
    return values;
  };
  info.mean = read("mean");
  info.stddev = read("stddev");
  for (const double value : info.stddev) {
    if (value >= 1e-30) continue;
    reader.error("stddev", "the numbers must be positive");
    break;
  }
}

Stream read_stream(ConfigReader& reader, const DatasetType& type) {
  // A key that is not given is not written either: checkpoints from before there was one agree.
  if (!reader.raw("stream")) return Stream::kAuto;
  const std::string stream = reader.choice("stream", {"auto", "never", "memory", "files"});
  if (stream == "files" && !type.pictures) {
    reader.error("stream", "'files' is of data sets whose images are in files of their own (" +
                               join(names_of_picture_sets()) + "); " + std::string(type.name) +
                               " can be streamed from 'memory'");
  }
  return stream_of(stream);
}

// Sums over the training data: of bytes exact, so the same on every machine.
void compute_normalisation(Dataset& data) {
  const int64_t pixels = data.height * data.width;
  for (int64_t c = 0; c < data.channels; ++c) {
    const auto each = [&](const auto& values, const auto& take) {
      for (int64_t n = 0; n < data.train.count; ++n) {
        const auto* channel = values.data() + (n * data.channels + c) * pixels;
        for (int64_t i = 0; i < pixels; ++i) take(channel[i]);
      }
    };
    const double count = static_cast<double>(data.train.count * pixels);
    double mean = 0.0, variance = 0.0;
    if (data.numbers) {
      each(data.train.numbers, [&](double value) { mean += value / count; });
      each(data.train.numbers,
           [&](double value) { variance += (value - mean) * (value - mean) / count; });
    } else {
      uint64_t sum = 0, squares = 0;
      for (const ImageFacts& image : data.train.facts) {
        sum += image.sums[static_cast<size_t>(c)];
        squares += image.squares[static_cast<size_t>(c)];
      }
      if (data.train.facts.empty()) {
        each(data.train.images, [&](uint64_t byte) { sum += byte, squares += byte * byte; });
      }
      mean = static_cast<double>(sum) / count / 255.0;
      variance = static_cast<double>(squares) / count / 65025.0 - mean * mean;
    }
    data.mean.push_back(mean);
    data.stddev.push_back(variance > 1e-12 * (1.0 + mean * mean) ? std::sqrt(variance) : 1.0);
  }
}

// Classes that nothing can be learnt or known of.
void look_for_classes(Dataset& data) {
  if (data.classes == 0) return;
  const auto look = [&](const Split& split, const std::string& kind, const std::string& result) {
    std::vector<int64_t> counts(static_cast<size_t>(data.classes));
    for (const int32_t label : split.labels) ++counts[static_cast<size_t>(label)];
    std::vector<std::string> missing;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] > 0) continue;
      missing.push_back(i < data.class_names.size() ? printable(data.class_names[i])
                                                    : std::to_string(i));
    }
    if (missing.empty()) return;
    const size_t all = missing.size();
    if (all > 5) missing.resize(5);
    data.warnings.push_back(data.source + ": no " + kind + " sample of " + std::to_string(all) +
                            " of " + std::to_string(data.classes) + " classes (" + join(missing) +
                            (all > 5 ? ", ..." : "") + "): " + result);
  };
  look(data.train, "training", "they cannot be learnt");
  look(data.validation, "validation", "how well they are known will not be seen");
}

void check(const Dataset& data) {
  for (const auto& [split, kind] :
       {std::pair(&data.train, "training"), std::pair(&data.validation, "validation")}) {
    if (split->count > 0) continue;
    throw DataError(data.source + ": there are no " + std::string(kind) + " data");
  }
  // Checkpoints hold the names of classes as JSON, where two that differ in such a byte would be one.
  for (const std::string& name : data.class_names) {
    if (is_utf8(name)) continue;
    throw DataError(data.source + ": the name of a class, '" + printable(name) +
                    "', is not UTF-8; save the file, or name the folder, in that encoding");
  }
}

// What moves an image must move its target by as much, and nothing else may change it.
void check_augment_of_pairs(ConfigReader& reader, Augment augment) {
  augment.flip = 0;
  if (!augment.any()) return;
  reader.error("augment", "pairs of images can only be flipped (horizontal_flip)");
}

void check_augment_of_boxes(ConfigReader& reader, const Augment& augment) {
  if (augment.mixup == 0.0) return;
  reader.error(
      "augment",
      "mixup lays images over one another, and a box has no share by which it could belong "
      "to one of two; of images with boxes take it out");
}

}  // namespace

DatasetLoader read_dataset(const DatasetType& type, ConfigReader& reader) {
  DatasetLoader loader = type.read(reader);
  read_normalisation(reader, loader.info);
  loader.info.stream = read_stream(reader, type);
  if (reader.has("augment") && loader.info.numbers) {
    reader.raw("augment");
    reader.error("augment", std::string(type.name) + " has no images");
  } else {
    loader.info.augment =
        read_augment(reader, loader.info.channels, loader.info.height, loader.info.width);
    if (loader.info.has_target_images()) check_augment_of_pairs(reader, loader.info.augment);
    if (loader.info.has_boxes()) check_augment_of_boxes(reader, loader.info.augment);
  }
  for (const char* key : {"path", "dir", "folder", "root"}) {
    const auto& asked = reader.asked();
    if (std::find(asked.begin(), asked.end(), key) != asked.end()) continue;
    reader.reject(key,
                  "--data DIR, or the environment variable DUET_DATA, says where the files are");
  }
  loader.load = [load = loader.load, info = loader.info](const std::filesystem::path& data_dir) {
    Dataset data = load(data_dir);
    check(data);
    data.mean = info.mean;
    data.stddev = info.stddev;
    if (data.mean.empty()) compute_normalisation(data);
    if (data.source != "generated") look_for_classes(data);
    data.augment = info.augment;
    data.stream = info.stream;
    return data;
  };
  return loader;
}

}  // namespace duet
