#include "data/format/coco.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "data/format/image_file.h"
#include "data/set/dataset_file.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMostBytes = size_t{1} << 30;  // COCO's own of 2017 has 450 million
constexpr size_t kToldMistakes = 20;            // mistakes
constexpr int kMostNesting = 64;                // of JSON
constexpr int64_t kMostValues = 1000;           // of an entry
constexpr const char* kSections[] = {"images", "annotations", "categories"};
constexpr const char* kKeys[] = {"id",   "file_name",   "height", "width",  "image_id",
                                 "name", "category_id", "bbox",   "iscrowd"};

std::string text_of_file(const fs::path& file) {
  DatasetFile bytes(file);
  std::string text;
  for (size_t got = 1; got > 0;) {
    const size_t size = text.size(), piece = size_t{1} << 20;
    if (size > kMostBytes) {
      throw DataError(file.string() + ": is longer than " + std::to_string(kMostBytes >> 20) +
                      " MiB");
    }
    text.resize(size + piece);
    got = bytes.read(text.data() + size, piece);
    text.resize(size + got);
  }
  return text;
}

bool is_one_of(const auto& list, const json& key) {
  return std::find(std::begin(list), std::end(list), key.get<std::string>()) != std::end(list);
}

// Takes entries one by one as they are parsed: the whole as JSON values would need many times the
// memory of its text.
class CocoReader {
 public:
  explicit CocoReader(const fs::path& file) : file_(file) {}

  Annotations read() {
    const std::string text = text_of_file(file_);
    try {
      [[maybe_unused]] const json rest =
          json::parse(text, [this](int depth, json::parse_event_t event, json& value) {
            return take(depth, event, value);
          });
    } catch (const json::exception& error) {
      const bool python = text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
      throw DataError(file_.string() + ": not JSON, or cut short: " + printable(error.what()) +
                      (python ? "; JSON has no NaN and no Infinity" : ""));
    }
    for (const char* section : kSections) {
      if (!seen_.count(section)) fail(std::string("has no list '") + section + "'");
    }
    number_categories();
    for (const Entry& entry : entries_) add_box(entry);
    if (mistakes_ > kToldMistakes) told_.push_back("...");
    if (mistakes_ > 0) throw DataError(join(told_, "\n"));
    return std::move(annotations_);
  }

 private:
  struct Entry {
    int64_t number, image, category;
    std::optional<AnnotatedBox> box;
  };

  void fail(const std::string& what) {
    if (++mistakes_ <= kToldMistakes) told_.push_back(file_.string() + ": " + what);
  }

  // The callback of json::parse(): returns whether to keep a value.
  bool take(int depth, json::parse_event_t event, json& value) {
    using Event = json::parse_event_t;
    const bool begins = event == Event::object_start || event == Event::array_start;
    if (begins && depth > kMostNesting) {
      throw DataError(file_.string() + ": JSON nested more than " + std::to_string(kMostNesting) +
                      " deep");
    }
    if (depth == 1 && event == Event::key) {
      section_ = is_one_of(kSections, value) ? value.get<std::string>() : "";
      number_ = -1;
      return !section_.empty();
    }
    if (depth == 0) return event != Event::array_start && event != Event::value;
    if (section_.empty()) return false;
    if (depth == 1) {
      if (event == Event::array_start) seen_.insert(section_);
      return event == Event::array_start || event == Event::array_end;
    }
    if (depth == 2 && event == Event::object_end) {
      take_entry(value);
      return false;
    }
    if (depth == 2) {
      values_ = 0;
      kept_ = false;
      if (begins || event == Event::value) ++number_;
      if (event == Event::array_start || event == Event::value) fail(place() + ": is no object");
      return event == Event::object_start;
    }
    if (depth == 3 && event == Event::key) return kept_ = is_one_of(kKeys, value);
    if (!kept_) return false;
    if (++values_ > kMostValues) {
      throw DataError(file_.string() + ": " + place() + ": has more than " +
                      std::to_string(kMostValues) + " values");
    }
    return true;
  }

  std::string place() const { return section_ + "[" + std::to_string(number_) + "]"; }

  void take_entry(const json& entry) {
    if (section_ == "images") return take_image(entry);
    if (section_ == "categories") return take_category(entry);
    const std::optional<int64_t> image = integer(entry, "image_id");
    const std::optional<int64_t> category = integer(entry, "category_id");
    if (!image || !category) return;
    if (entry.contains("iscrowd") && entry["iscrowd"] == 1) {
      ++annotations_.crowds;
    } else {
      entries_.push_back({number_, *image, *category, box_of(entry)});
    }
  }

  void take_image(const json& entry) {
    const std::optional<int64_t> id = integer(entry, "id");
    const std::optional<std::string> name = text(entry, "file_name");
    const std::optional<int64_t> height = side(entry, "height"), width = side(entry, "width");
    if (!id || !name || !height || !width) return;
    const fs::path path = fs::path(*name).lexically_normal();
    if (path.empty() || path.is_absolute() || *path.begin() == ".." ||
        name->find('\0') != name->npos) {
      return fail(place() + ": 'file_name' is '" + printable(*name) +
                  "', expected a file in the folder of the pictures (data.images)");
    }
    const auto add = [&](auto& known, const auto& key, const std::string& what) {
      const auto [found, added] = known.emplace(key, number_);
      if (!added) {
        fail(place() + ": has the " + what + " of images[" + std::to_string(found->second) + "]");
      }
      return added;
    };
    const bool added = add(image_entries_, *id, "id " + std::to_string(*id));
    if (!add(names_, path.string(), "file_name '" + printable(*name) + "'") || !added) return;
    pictures_[*id] = annotations_.pictures.size();
    annotations_.pictures.push_back({path.string(), *height, *width});
  }

  void take_category(const json& entry) {
    const std::optional<int64_t> id = integer(entry, "id");
    const std::optional<std::string> name = text(entry, "name");
    if (!id || !name || categories_.emplace(*id, *name).second) return;
    fail(place() + ": the id " + std::to_string(*id) + " is there twice");
  }

  void number_categories() {
    for (const auto& [id, name] : categories_) {
      labels_[id] = static_cast<int32_t>(annotations_.classes.size());
      annotations_.classes.push_back(name);
    }
  }

  void add_box(const Entry& entry) {
    const std::string place = "annotations[" + std::to_string(entry.number) + "]";
    const auto picture = pictures_.find(entry.image);
    const auto label = labels_.find(entry.category);
    if (picture == pictures_.end() && !image_entries_.count(entry.image)) {
      fail(place + ": no entry of 'images' has the id " + std::to_string(entry.image));
    }
    if (label == labels_.end()) {
      fail(place + ": no entry of 'categories' has the id " + std::to_string(entry.category));
    }
    if (picture == pictures_.end() || label == labels_.end()) return;
    AnnotatedPicture& of = annotations_.pictures[picture->second];
    if (!entry.box) {
      of.mistake += (of.mistake.empty() ? "" : "; ") + place +
                    ": expected 'bbox' of four numbers: left, top, width, height";
      return;
    }
    of.boxes.push_back(*entry.box);
    of.boxes.back().label = label->second;
    of.boxes.back().place = place;
  }

  static std::optional<AnnotatedBox> box_of(const json& entry) {
    const auto found = entry.find("bbox");
    if (found == entry.end() || !found->is_array() || found->size() != 4) return {};
    double numbers[4];
    for (size_t i = 0; i < 4; ++i) {
      if (!(*found)[i].is_number()) return {};
      numbers[i] = (*found)[i].get<double>();
    }
    const auto [left, top, width, height] = numbers;
    return AnnotatedBox{left, top, left + width, top + height};
  }

  // A member of an entry; nothing, and a mistake, where it is not that.
  template <class T>
  std::optional<T> member(const json& entry, const char* key, bool right, const char* expected) {
    if (right) return entry[key].get<T>();
    fail(place() + ": expected '" + key + "' to be " + expected +
         (entry.contains(key) ? ", found " + printable(entry[key].dump(-1, ' ', true)) : ""));
    return {};
  }
  std::optional<int64_t> integer(const json& entry, const char* key) {
    const bool right = entry.contains(key) && entry[key].is_number_integer() &&
                       (!entry[key].is_number_unsigned() ||
                        entry[key].get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX));
    return member<int64_t>(entry, key, right, "a whole number");
  }
  std::optional<int64_t> side(const json& entry, const char* key) {
    const bool right = entry.contains(key) && entry[key].is_number_integer() && entry[key] >= 1 &&
                       entry[key] <= kMostSide;
    return member<int64_t>(entry, key, right, "a number of pixels");
  }
  std::optional<std::string> text(const json& entry, const char* key) {
    const bool right = entry.contains(key) && entry[key].is_string();
    return member<std::string>(entry, key, right, "text");
  }

  const fs::path file_;
  Annotations annotations_;
  std::vector<std::string> told_;
  size_t mistakes_ = 0;
  std::string section_;  // that is parsed, the number of its entry, and the values of that so far
  int64_t number_ = -1, values_ = 0;
  bool kept_ = false;  // what stands under the last key of the entry
  std::set<std::string> seen_;
  std::vector<Entry> entries_;
  std::map<int64_t, std::string> categories_;
  std::map<int64_t, int32_t> labels_;         // by the ids of categories
  std::map<int64_t, int64_t> image_entries_;  // their numbers by their ids
  std::map<std::string, int64_t> names_;
  std::map<int64_t, size_t> pictures_;  // by their ids
};

}  // namespace

Annotations read_coco(const fs::path& file) { return CocoReader(file).read(); }

}  // namespace duet
