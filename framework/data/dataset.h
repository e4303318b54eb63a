// Data sets of labelled images, whole in host memory as bytes. data/batches.h makes batches of
// them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"

namespace duet {

struct Split {
  int64_t count = 0;
  std::vector<uint8_t> images;  // count x channels x height x width, row-major
  std::vector<int32_t> labels;  // count, each in [0, classes)
};

/// What is known of a data set before it is loaded.
struct DatasetInfo {
  std::string name;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;
  /// Of byte / 255, per channel; batches hold (byte / 255 - mean) / stddev.
  std::vector<double> mean;
  std::vector<double> stddev;
  /// A name a class.
  std::vector<std::string> class_names;
};
/// "0", "1", ...: of a data set whose classes are numbers.
std::vector<std::string> numbered_classes(int64_t classes);

struct Dataset : DatasetInfo {
  Split train;
  Split validation;
  std::string source;  // the folder it was read from, or "generated"
};

/// A data set whose keys have been read, not yet loaded.
struct DatasetLoader {
  DatasetInfo info;
  /// `data_dir` is the folder the user named (--data), or empty. Throws DataError.
  std::function<Dataset(const std::filesystem::path& data_dir)> load;
};

/// A row of the list of data sets in dataset.cpp. A new one is a file and a line there.
struct DatasetType {
  std::string_view name;
  std::string_view summary;
  /// Reads the data set's own keys; mistakes go to the reader. Touches no file.
  DatasetLoader (*read)(ConfigReader& reader);
  /// The files it is read from, without ".gz"; empty if it is generated.
  std::vector<std::string> files;
  /// Where its files come from, as a sentence for the user; may be empty.
  std::string_view advice;
  /// fingerprint() of the data set as it was published; empty if there is no such one.
  std::string_view published;
};

const std::vector<const DatasetType*>& dataset_types();
/// nullptr if there is none of that name.
const DatasetType* find_dataset_type(std::string_view name);

/// The first folder that holds all files of `type`, each plain or as .gz; empty if there is none.
/// Looks in `data_dir`/name and `data_dir` if `data_dir` is given, and nowhere else then; otherwise
/// in $DUET_DATA/name, the system's /usr/share/datasets (name with '-' for '_') and
/// $XDG_CACHE_HOME (or ~/.cache)/duet/name. Notes a line about each folder in `looked_in`.
std::filesystem::path find_dataset_folder(const DatasetType& type,
                                          const std::filesystem::path& data_dir = {},
                                          std::vector<std::string>* looked_in = nullptr);

}  // namespace duet
