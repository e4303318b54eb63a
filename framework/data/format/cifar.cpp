// CIFAR-10 and CIFAR-100 (Krizhevsky 2009): 50000 + 10000 colour images of 32x32.
#include "data/format/cifar.h"

#include <algorithm>
#include <set>
#include <string>

#include "core/error.h"
#include "core/printable.h"
#include "data/batch/data_memory.h"
#include "data/format/text_lines.h"
#include "data/set/dataset_file.h"
#include "data/set/dataset_types.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPixels = 3 * 32 * 32;

// The files of one of the two data sets.
struct Published {
  std::vector<std::string> train;
  std::string validation, names;
  CifarFormat format;
  int64_t records;  // of each training file
};

Dataset load_cifar(const DatasetType& type, DatasetInfo info, const Published& published,
                   const fs::path& data_dir) {
  const fs::path folder = data_folder(type.data_files(), type.how_to_get(), data_dir);
  Dataset data{info};
  data.source = folder.string();
  data.class_names = read_class_names(folder / published.names, info.classes);
  for (const std::string& name : published.train) {
    const int64_t before = data.train.count;
    const fs::path file = plain_or_packed(folder / name);
    read_cifar_file(file, published.format, data.train);
    if (const int64_t found = data.train.count - before; found != published.records) {
      data.warnings.push_back(file.string() + ": holds " + std::to_string(found) +
                              " images; the published file has " +
                              std::to_string(published.records));
    }
  }
  read_cifar_file(plain_or_packed(folder / published.validation), published.format,
                  data.validation);
  return data;
}

}  // namespace

void read_cifar_file(const fs::path& path, const CifarFormat& format, Split& split) {
  DatasetFile file(path);
  const auto record = static_cast<size_t>(format.labels) + kPixels;
  if (file.size()) make_room(split.images, *file.size(), path.string());
  const auto fail = [&](int64_t number, int64_t byte, const std::string& what) {
    throw DataError(path.string() + ": record " + std::to_string(number) + " (offset " +
                    std::to_string(number * static_cast<int64_t>(record) + byte) + "): " + what);
  };
  std::vector<uint8_t> bytes(record);
  int64_t number = 0;
  for (;; ++number) {
    const size_t got = file.read(bytes.data(), record);
    if (got == 0) break;
    if (got < record) {
      fail(number, static_cast<int64_t>(got),
           "the file is truncated: expected records of " + std::to_string(record) +
               " bytes, the last has " + std::to_string(got));
    }
    const int64_t label = bytes[static_cast<size_t>(format.label)];
    if (label >= format.classes) {
      fail(number, format.label,
           "expected a label from 0 to " + std::to_string(format.classes - 1) + ", found " +
               std::to_string(label) + "; is it a file of the other CIFAR, or damaged?");
    }
    make_room(split.images, kPixels, path.string());
    split.labels.push_back(static_cast<int32_t>(label));
    split.images.insert(split.images.end(), bytes.begin() + format.labels, bytes.end());
  }
  if (number == 0) throw DataError(path.string() + ": is empty; expected images");
  split.count += number;
}

std::vector<std::string> read_class_names(const fs::path& file, int64_t classes) {
  std::vector<std::string> names;
  std::set<std::string> seen;
  read_lines(file, [&](const TextLine& line) {
    if (line.text.empty()) return;
    if (!seen.emplace(line.text).second) {
      line.fail("the class '" + printable(line.text) + "' is there twice");
    }
    names.emplace_back(line.text);
  });
  if (static_cast<int64_t>(names.size()) != classes) {
    throw DataError(file.string() + ": expected " + std::to_string(classes) +
                    " names of classes, a line each, found " + std::to_string(names.size()));
  }
  return names;
}

constexpr std::string_view kPublisher = "https://www.cs.toronto.edu/~kriz";

const DatasetType& cifar10_type() {
  static const Published published = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                       "data_batch_4.bin", "data_batch_5.bin"},
                                      "test_batch.bin",
                                      "batches.meta.txt",
                                      {1, 0, 10},
                                      10000};
  static const DatasetType type = {
      "cifar10",
      "50000 + 10000 colour images of 32x32, ten kinds of animals and vehicles",
      [](ConfigReader&) {
        DatasetInfo info{
            "cifar10", 3, 32, 32, 10, {0.4914, 0.4822, 0.4465}, {0.2470, 0.2435, 0.2616}};
        info.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                            "dog",      "frog",       "horse", "ship", "truck"};
        return DatasetLoader{info, [info](const fs::path& data_dir) {
                               return load_cifar(cifar10_type(), info, published, data_dir);
                             }};
      },
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
       "data_batch_5.bin", "test_batch.bin", "batches.meta.txt"},
      "",
      "",
      "cifar-10-batches-bin",
      {{kPublisher},
       {{"cifar-10-binary.tar.gz", 170052171,
         "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}}}};
  return type;
}

const DatasetType& cifar100_type() {
  static const DatasetType type = {
      "cifar100",
      "50000 + 10000 colour images of 32x32, 100 kinds of things in 20 groups",
      [](ConfigReader& reader) {
        const bool fine = reader.choice("labels", {"fine", "coarse"}, "fine") == "fine";
        const int64_t classes = fine ? 100 : 20;
        const Published published = {{"train.bin"},
                                     "test.bin",
                                     fine ? "fine_label_names.txt" : "coarse_label_names.txt",
                                     {2, fine ? 1 : 0, classes},
                                     50000};
        const DatasetInfo info{
            "cifar100", 3, 32, 32, classes, {0.5071, 0.4865, 0.4409}, {0.2673, 0.2564, 0.2762}};
        return DatasetLoader{info, [info, published](const fs::path& data_dir) {
                               return load_cifar(cifar100_type(), info, published, data_dir);
                             }};
      },
      {"train.bin", "test.bin", "fine_label_names.txt", "coarse_label_names.txt"},
      "",
      "",
      "cifar-100-binary",
      {{kPublisher},
       {{"cifar-100-binary.tar.gz", 168513733,
         "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"}}}};
  return type;
}

}  // namespace duet
