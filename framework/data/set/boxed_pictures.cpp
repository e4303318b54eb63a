#include "data/set/boxed_pictures.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/error.h"
#include "core/number_text.h"
#include "core/printable.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// What happened to boxes that are no mistakes.
struct Cuts {
  int64_t beyond = 0;   // their picture
  int64_t dropped = 0;  // with what is cropped off the picture, or too small
};

std::string text_of(const AnnotatedBox& box) {
  return box.place + ": the box " +
         printed("from (%g, %g) to (%g, %g)", box.left, box.top, box.right, box.bottom);
}

// Why that is no box of the picture; empty if it is one.
std::string mistake_of(const AnnotatedBox& box, const AnnotatedPicture& picture) {
  const double edges[] = {box.left, box.top, box.right, box.bottom};
  if (!std::all_of(std::begin(edges), std::end(edges), [](double e) { return !std::isnan(e); })) {
    return text_of(box) + " has an edge that is no number";
  }
  if (!(box.right > box.left && box.bottom > box.top)) return text_of(box) + " has no area";
  if (box.right > 0.0 && box.bottom > 0.0 && box.left < static_cast<double>(picture.width) &&
      box.top < static_cast<double>(picture.height)) {
    return "";
  }
  return text_of(box) + " lies outside the picture of " + size_text(picture.height, picture.width) +
         " pixels";
}

// An edge in the picture, of `from` pixels, where fit() has put it.
int64_t edge_of(double edge, int64_t from, int64_t to, int64_t first, bool& beyond) {
  const double inside = std::clamp(edge, 0.0, static_cast<double>(from));
  beyond = beyond || inside != edge;
  const double moved = inside * (static_cast<double>(to) / static_cast<double>(from));
  return std::llround((moved - static_cast<double>(first)) * kBoxUnit);
}

// Boxes of one picture; mistakes are added to its own.
std::vector<Box> boxes_of(const AnnotatedPicture& picture, const BoxRules& rules, Cuts& cuts,
                          std::vector<std::string>& mistakes) {
  const Placement at = placement_of(picture.height, picture.width, rules.pictures);
  const auto height = static_cast<int32_t>(rules.pictures.height);
  const auto width = static_cast<int32_t>(rules.pictures.width);
  std::vector<Box> boxes;
  for (const AnnotatedBox& box : picture.boxes) {
    if (std::string mistake = mistake_of(box, picture); !mistake.empty()) {
      mistakes.push_back(std::move(mistake));
      continue;
    }
    bool beyond = false;
    const BoxEdges edges = {edge_of(box.left, picture.width, at.width, at.left, beyond),
                            edge_of(box.top, picture.height, at.height, at.top, beyond),
                            edge_of(box.right, picture.width, at.width, at.left, beyond),
                            edge_of(box.bottom, picture.height, at.height, at.top, beyond)};
    cuts.beyond += beyond ? 1 : 0;
    Box cut;
    if (cut_box(edges, box.label, height, width, cut)) {
      boxes.push_back(cut);
    } else {
      ++cuts.dropped;
    }
  }
  if (std::ssize(boxes) > rules.most) {
    mistakes.push_back("has " + std::to_string(boxes.size()) + " boxes, and data.max_boxes is " +
                       std::to_string(rules.most));
  }
  return boxes;
}

void warn(const Annotations& annotations, const fs::path& file, const Cuts& cuts, Dataset& data) {
  const auto tell = [&](int64_t count, const std::string& what) {
    if (count == 0) return;
    data.warnings.push_back(file.string() + ": " + std::to_string(count) +
                            (count == 1 ? " box " : " boxes ") + what);
  };
  tell(cuts.beyond, "cut, which reached beyond the picture");
  tell(
      cuts.dropped,
      "left out, of which less than a tenth remains when the picture has been resized and cropped");
  tell(annotations.crowds, "left out, of a crowd (iscrowd)");
}

}  // namespace

void add_record(const std::vector<Box>& boxes, int64_t most, std::vector<uint32_t>& words) {
  for (int64_t i = 0; i < most; ++i) {
    const Box box = i < std::ssize(boxes) ? boxes[static_cast<size_t>(i)] : Box{0, 0, 0, 0, -1};
    const auto own = std::bit_cast<std::array<uint32_t, kBoxWords>>(box);
    words.insert(words.end(), own.begin(), own.end());
  }
}

RecordField boxes_field(const BoxRules& rules, int64_t classes) {
  return {std::string(kBoxesField), FieldKind::kBoxes, {rules.most, kBoxNumbers}, classes};
}

Split read_boxed_pictures(const Annotations& annotations, const fs::path& file,
                          const fs::path& folder, const BoxRules& rules, Dataset& data) {
  std::vector<LabelledFile> files;
  std::vector<std::vector<Box>> boxes;  // of each of the files
  std::vector<std::string> unusable;
  Cuts cuts;
  for (const AnnotatedPicture& picture : annotations.pictures) {
    std::vector<std::string> mistakes;
    if (!picture.mistake.empty()) mistakes.push_back(picture.mistake);
    const fs::path path = folder / picture.name;
    std::error_code ignored;
    if (!fs::exists(path, ignored)) mistakes.push_back("there is no " + printable(path.string()));
    std::vector<Box> found;
    try {
      found = boxes_of(picture, rules, cuts, mistakes);
    } catch (const DataError& error) {
      mistakes.emplace_back(error.what());
    }
    if (mistakes.empty()) {
      files.push_back({path, static_cast<int32_t>(boxes.size()), picture.height, picture.width});
      boxes.push_back(std::move(found));
    } else {
      unusable.push_back(file.string() + ": " + printable(picture.name) + ": " +
                         join(mistakes, "; "));
    }
  }
  leave_out(unusable, annotations.pictures.size(), "cannot be used", rules.pictures.skip, data);
  Split split = read_labelled_files(files, rules.pictures, data);
  std::vector<uint32_t>& words = split.records.emplace_back();
  for (const int32_t number : split.labels) {
    add_record(boxes[static_cast<size_t>(number)], rules.most, words);
  }
  split.labels.clear();  // they were the numbers of the files
  warn(annotations, file, cuts, data);
  return split;
}

}  // namespace duet
