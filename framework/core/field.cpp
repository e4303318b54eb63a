#include "core/field.h"

namespace duet {

std::string_view to_string(FieldKind kind) {
  switch (kind) {
    case FieldKind::kImages:
      return "images";
    case FieldKind::kNumbers:
      return "numbers";
    case FieldKind::kClasses:
      return "classes";
    case FieldKind::kMixedClasses:
      return "mixed classes";
    case FieldKind::kBoxes:
      return "boxes with classes";
    case FieldKind::kCounts:
      return "counts";
    case FieldKind::kRows:
      return "rows";
  }
  return "";
}

bool can_stand_for(std::string_view field, FieldKind kind) {
  if (field == kLabelsField) {
    return kind == FieldKind::kClasses || kind == FieldKind::kMixedClasses;
  }
  if (field == kTargetsField) return kind == FieldKind::kImages || kind == FieldKind::kNumbers;
  // A count is at least 0 where a row counts, as an entry of `rows` is.
  if (field == kRowsField) return kind == FieldKind::kRows || kind == FieldKind::kCounts;
  return true;
}

std::string text_of(const BatchField& field) {
  const std::string_view kind = to_string(field.kind);
  return field.name + (kind == field.name ? "" : " (" + std::string(kind) + ")");
}

}  // namespace duet
