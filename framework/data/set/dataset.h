// Data sets of images, of numbers, or of pairs of images, with labels and other fields, in host
// memory; images in files of their own may also stay there. data/batch/batches.h makes batches of them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "core/field.h"
#include "data/batch/augment.h"
#include "data/format/image.h"

namespace duet {

/// What is known of an image that is not in memory.
struct ImageFacts {
  uint64_t hash = 0;                          // hash_of() its bytes
  std::array<uint64_t, 3> sums{}, squares{};  // of the bytes of each channel
};

struct Split {
  int64_t count = 0;
  std::vector<uint8_t> images;  // count x channels x height x width, row-major
  std::vector<int32_t> labels;  // count, each in [0, classes); none of samples without labels
  std::vector<float> numbers;   // instead of images, of the same sizes (DatasetInfo::numbers)
  /// Instead of images: writes those of one sample, in any thread. Throws DataError where its file
  /// cannot be read, or holds another image than when the data set was loaded.
  std::function<void(int64_t sample, uint8_t* to)> read = {};
  std::vector<ImageFacts> facts = {};  // of images in files of their own, in memory or not
  /// The targets of pairs: sample n is the picture that a network should make of image n. Null for
  /// other data sets. Sizes are DatasetInfo::target's.
  std::shared_ptr<const Split> targets = {};
  /// Of DatasetInfo::records: of each all its samples', as words of float32 or int32.
  std::vector<std::vector<uint32_t>> records = {};
};
/// These samples, in this order.
Split selected(const Split& split, const std::vector<int64_t>& samples);

/// Where the samples come from in a training: from the network's own device, where all of them lie,
/// or in batches that are prepared ahead (data/batch/batch_stream.h), from host memory or from files.
enum class Stream { kAuto, kNever, kMemory, kFiles };

/// Of "never", "memory" and "files"; kAuto of anything else.
Stream stream_of(std::string_view name);

/// What is known of a data set before it is loaded.
struct DatasetInfo {
  std::string name;
  int64_t channels = 0;
  int64_t height = 0;
  int64_t width = 0;
  int64_t classes = 0;  // 0: samples have no labels
  /// Of byte / 255, per channel; batches hold (byte / 255 - mean) / stddev. Of numbers: of the
  /// number itself. Empty before the data set is loaded: they are computed then.
  std::vector<double> mean;
  std::vector<double> stddev;
  /// A name a class; may be empty before the data set is loaded.
  std::vector<std::string> class_names;
  /// Samples are numbers (a channel each, height and width 1), not images.
  bool numbers = false;
  Stream stream = Stream::kNever;
  Augment augment = {};  // of the training images
  /// The size of a target of image pairs; 0 for other data sets. A batch holds such targets as
  /// byte / 255.
  struct Sizes {
    int64_t channels = 0, height = 0, width = 0;
  } target = {};
  /// Fields beside images, labels and the targets of image pairs.
  std::vector<RecordField> records = {};
  /// Of numbers: a name for each, by which a table has them; may be empty.
  std::vector<std::string> columns = {};

  bool has_target_images() const { return target.channels > 0; }
  bool has_boxes() const;
  /// The targets of image pairs as a data set by themselves.
  DatasetInfo target_info() const;
  /// The images, or numbers, as a data set by themselves.
  DatasetInfo inputs_alone() const;
};
/// Returns the fields that a batch of this data set provides; in training, of augmented images: with
/// mixup labels are mixed.
std::vector<BatchField> fields_of(const DatasetInfo& info, int64_t batch, bool training = false);
/// "0", "1", ...: of a data set whose classes are numbers.
std::vector<std::string> numbered_classes(int64_t classes);

/// Samples that `on_error: skip` left out.
struct LeftOut {
  static constexpr size_t kMostNamed = 20;

  int64_t count = 0;
  std::vector<std::string> named;  // the first: the file (and line), and why

  void add(const std::string& sample) {
    ++count;
    if (named.size() < kMostNamed) named.push_back(sample);
  }
};

struct Dataset : DatasetInfo {
  Split train;
  Split validation;
  std::string source;                 // the folder it was read from, or "generated"
  std::vector<std::string> warnings;  // for the user, a line each
  LeftOut left_out = {};              // of both splits
};

/// Samples of numbers without labels.
struct SampleRows {
  std::vector<std::string> names;  // "FILE:LINE"
  std::vector<float> numbers;
};

/// A data set whose keys have been read, not yet loaded.
struct DatasetLoader {
  DatasetInfo info;
  /// `data_dir` is the folder the user named (--data), or empty. Throws DataError.
  std::function<Dataset(const std::filesystem::path& data_dir)> load;
  /// Makes of any picture what it would be in the data set, where that resizes its own, or has
  /// channels of its own; may be empty. Throws DataError.
  std::function<Image(const Image& picture)> fit = {};
  /// Reads samples of numbers to predict from; may be empty. `columns` are DatasetInfo's. Throws
  /// DataError.
  std::function<SampleRows(const std::filesystem::path& file,
                           const std::vector<std::string>& columns)>
      read_rows = {};
};

/// What a data set is read from.
struct DataFiles {
  std::string folder;              // its name, or a path
  std::vector<std::string> files;  // in it, each without ".gz"
  std::string unpacked = {};       // folder of the published archive; looked for in `folder`
};

/// A file of a data set, or an archive (.tar.gz, .zip) of its files.
struct PublishedFile {
  std::string_view name;
  int64_t bytes;
  std::string_view sha256;  // in hexadecimal
};
/// Where a data set is published: folders that hold the files, as URLs, the first asked first.
struct Remote {
  std::vector<std::string_view> mirrors;
  std::vector<PublishedFile> files;
};

/// A row of the list of data sets in dataset.cpp. A new one is a file and a line there.
struct DatasetType {
  std::string_view name;
  std::string_view summary;
  /// Reads the data set's own keys; mistakes go to the reader. Touches no file.
  DatasetLoader (*read)(ConfigReader& reader);
  /// The files it is read from, without ".gz"; empty if it is generated, or if its keys name them.
  std::vector<std::string> files;
  /// Another way to its files than `remote`, as a sentence for the user; may be empty.
  std::string_view advice;
  /// fingerprint() of the data set as it was published; empty if it is not known.
  std::string_view published;
  /// DataFiles::unpacked
  std::string_view unpacked = {};
  /// What `trainer download` fetches; empty if it is not published as files.
  Remote remote = {};
  /// The files are the user's: keys name them.
  bool keys_name_files = false;
  /// Images in files of their own, which can stay there.
  bool pictures = false;

  /// For who does not have it; may be empty.
  std::string how_to_get() const;
  DataFiles data_files() const { return {std::string(name), files, std::string(unpacked)}; }
};

const std::vector<const DatasetType*>& dataset_types();
/// nullptr if there is none of that name.
const DatasetType* find_dataset_type(std::string_view name);

/// Reads the keys of the data set and those of every data set: `mean`, `stddev`, `augment`, `stream`.
/// What it
/// loads is checked, and normalised by what was given or else, if the type says nothing, by what its
/// training data have.
DatasetLoader read_dataset(const DatasetType& type, ConfigReader& reader);

/// The first folder that holds all of `files`, each plain or as .gz; empty if there is none, or if
/// there are no files. Looks in `data_dir`/folder and `data_dir` if `data_dir` is given, and nowhere
/// else then; otherwise in $DUET_DATA/folder, the system's /usr/share/datasets (folder with '-' for
/// '_') and $XDG_CACHE_HOME (or ~/.cache)/duet/folder; or, if `folder` begins with /, ./ or ../, there
/// alone. Notes a line about each folder in `looked_in`.
std::filesystem::path find_data_folder(const DataFiles& files,
                                       const std::filesystem::path& data_dir = {},
                                       std::vector<std::string>* looked_in = nullptr);
/// The same, or throws DataError: where it looked, and what to do. `advice` may be empty.
std::filesystem::path data_folder(const DataFiles& files, std::string_view advice,
                                  const std::filesystem::path& data_dir);
/// The user's own of them, which may not be there; empty without XDG_CACHE_HOME and HOME.
std::filesystem::path cache_folder(const std::filesystem::path& name);

}  // namespace duet
