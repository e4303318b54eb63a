#include "data/set/dataset.h"

#include <algorithm>
#include <cstdlib>

#include "core/error.h"
#include "core/mixed_labels.h"
#include "core/program.h"
#include "data/set/dataset_types.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// An unset variable and an empty one are the same to us.
fs::path environment_path(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Of one's own data: as in a shell, from the current folder if it says so.
bool is_place(const std::string& name) {
  return name.starts_with("/") || name == "." || name == ".." || name.starts_with("./") ||
         name.starts_with("../");
}

std::vector<fs::path> candidate_folders(const DataFiles& of, const fs::path& data_dir) {
  const fs::path name = of.folder;
  std::vector<fs::path> folders;
  if (!data_dir.empty()) {
    folders = {data_dir / name, data_dir};
  } else if (is_place(of.folder)) {
    folders = {name};
  } else {
    if (const fs::path data = environment_path("DUET_DATA"); !data.empty()) {
      folders.push_back(data / name);  // not `data` itself: MNIST's files have the same names
    }
    std::string system_name = name.string();
    std::replace(system_name.begin(), system_name.end(), '_', '-');
    folders.push_back(fs::path("/usr/share/datasets") / system_name);
    if (const fs::path cache = cache_folder(name); !cache.empty()) folders.push_back(cache);
  }
  if (of.unpacked.empty()) return folders;
  std::vector<fs::path> all;
  for (const fs::path& folder : folders) all.insert(all.end(), {folder, folder / of.unpacked});
  return all;
}

// What keeps `folder` from being used; empty if nothing does.
std::string missing_in(const fs::path& folder, const std::vector<std::string>& files) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) return "no such folder";
  std::vector<std::string> missing;
  for (const std::string& file : files) {
    if (!fs::exists(folder / file, ignored) && !fs::exists(folder / (file + ".gz"), ignored)) {
      missing.push_back(file + "[.gz]");
    }
  }
  return missing.empty() ? "" : "it has no " + join(missing);
}

}  // namespace

fs::path cache_folder(const fs::path& name) {
  if (const fs::path cache = environment_path("XDG_CACHE_HOME"); !cache.empty()) {
    return cache / "duet" / name;
  }
  const fs::path home = environment_path("HOME");
  return home.empty() ? home : home / ".cache" / "duet" / name;
}

const std::vector<const DatasetType*>& dataset_types() {
  static const std::vector<const DatasetType*> types = {
      &cifar10_type(),          &cifar100_type(),         &csv_type(),
      &detection_type(),        &fashion_mnist_type(),    &idx_type(),
      &image_folder_type(),     &image_pairs_type(),      &mnist_type(),
      &synthetic_images_type(), &synthetic_points_type(), &tiny_imagenet_type(),
  };
  return types;
}

Stream stream_of(std::string_view name) {
  if (name == "never") return Stream::kNever;
  if (name == "memory") return Stream::kMemory;
  return name == "files" ? Stream::kFiles : Stream::kAuto;
}

DatasetInfo DatasetInfo::inputs_alone() const {
  DatasetInfo info = *this;
  info.target = {};
  info.records = {};
  return info;
}

bool DatasetInfo::has_boxes() const {
  return std::any_of(records.begin(), records.end(),
                     [](const RecordField& record) { return record.kind == FieldKind::kBoxes; });
}

DatasetInfo DatasetInfo::target_info() const {
  DatasetInfo info = inputs_alone();
  info.channels = target.channels;
  info.height = target.height;
  info.width = target.width;
  info.mean.assign(static_cast<size_t>(target.channels), 0.0);
  info.stddev.assign(static_cast<size_t>(target.channels), 1.0);
  return info;
}

std::vector<BatchField> fields_of(const DatasetInfo& info, int64_t batch, bool training) {
  std::vector<BatchField> fields =
      labelled_images({{batch, info.channels, info.height, info.width}}, info.classes);
  if (info.classes == 0) {
    std::erase_if(fields,
                  [](const BatchField& field) { return field.kind == FieldKind::kClasses; });
  }
  for (BatchField& field : fields) {
    if (field.kind != FieldKind::kClasses || !training || info.augment.mixup == 0.0) continue;
    field.kind = FieldKind::kMixedClasses;
    field.desc = mixed_labels_desc(batch);
  }
  if (info.has_target_images()) {
    const auto& [channels, height, width] = info.target;
    fields.push_back(
        {std::string(kTargetsField), FieldKind::kImages, {{batch, channels, height, width}}});
  }
  for (const RecordField& record : info.records) {
    fields.push_back(record.of_batch(batch));
    if (record.kind != FieldKind::kBoxes) continue;
    fields.push_back({std::string(kBoxCountsField), FieldKind::kCounts, rows_desc(batch)});
  }
  return fields;
}

std::vector<std::string> numbered_classes(int64_t classes) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < classes; ++i) names.push_back(std::to_string(i));
  return names;
}

std::string DatasetType::how_to_get() const {
  std::string text(advice);
  if (remote.files.empty()) return text;
  return "'" + as_started("trainer download ") + std::string(name) + "' fetches it." +
         (text.empty() ? "" : " " + text);
}

const DatasetType* find_dataset_type(std::string_view name) {
  for (const DatasetType* type : dataset_types()) {
    if (type->name == name) return type;
  }
  return nullptr;
}

Split selected(const Split& split, const std::vector<int64_t>& samples) {
  Split some{static_cast<int64_t>(samples.size()), {}, {}, {}};
  const auto append = [&](const auto& from, auto& to) {
    const size_t size = split.count > 0 ? from.size() / static_cast<size_t>(split.count) : 0;
    to.reserve(size * samples.size());
    for (const int64_t sample : samples) {
      const auto first = from.begin() + sample * static_cast<int64_t>(size);
      to.insert(to.end(), first, first + static_cast<int64_t>(size));
    }
  };
  append(split.images, some.images);
  append(split.labels, some.labels);
  append(split.numbers, some.numbers);
  append(split.facts, some.facts);
  some.records.resize(split.records.size());
  for (size_t i = 0; i < split.records.size(); ++i) append(split.records[i], some.records[i]);
  if (split.targets) {
    some.targets = std::make_shared<const Split>(selected(*split.targets, samples));
  }
  if (split.read) {
    some.read = [read = split.read, samples](int64_t sample, uint8_t* to) {
      read(samples[static_cast<size_t>(sample)], to);
    };
  }
  return some;
}

fs::path find_data_folder(const DataFiles& files, const fs::path& data_dir,
                          std::vector<std::string>* looked_in) {
  if (files.files.empty()) return {};
  for (const fs::path& folder : candidate_folders(files, data_dir)) {
    const std::string missing = missing_in(folder, files.files);
    if (missing.empty()) return folder;
    if (looked_in) looked_in->push_back(folder.string() + ": " + missing);
  }
  return {};
}

fs::path data_folder(const DataFiles& files, std::string_view advice, const fs::path& data_dir) {
  std::vector<std::string> looked_in;
  fs::path folder = find_data_folder(files, data_dir, &looked_in);
  if (!folder.empty()) return folder;
  throw DataError("data set " + files.folder + " was not found. Looked in:\n  " +
                  join(looked_in, "\n  ") + "\n" + std::string(advice) +
                  (advice.empty() ? "Put its" : " Or put its") + " files (" + join(files.files) +
                  "; plain or .gz) in a folder and name that with --data DIR or with the "
                  "environment variable DUET_DATA.");
}

}  // namespace duet
