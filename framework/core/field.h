// The fields of a batch: what a data set gives for each sample, by names that 'inputs' of a layer
// may use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/labels.h"
#include "core/tensor.h"

namespace duet {

inline constexpr std::string_view kImagesField = "images", kLabelsField = "labels",
                                  kTargetsField = "targets", kRowsField = "rows",
                                  kBoxesField = "boxes", kBoxCountsField = "box_counts";

/// kImages: pictures, or the numbers of a table, as a network stores activations. kNumbers: numbers
/// of any shape, N first, stored so too. kClasses: int32, a class a row as labels_desc(), or of any
/// shape, N first, a class at each place. kMixedClasses: of each row two classes by shares, as
/// mixed_labels_desc(): what a training with mixup has as labels. kBoxes: float32 {N, M, kBoxNumbers} whatever the network
/// stores: left, top, right and bottom edge, in pixels from the left top corner of the image, and
/// class of each box; behind the last one 0, 0, 0, 0 and the class -1. kCounts: int32 {N}, how many
/// boxes; -1 in rows that pad. kRows: int32, as rows_desc().
enum class FieldKind { kImages, kNumbers, kClasses, kMixedClasses, kBoxes, kCounts, kRows };

/// For messages: "classes", "boxes with classes".
std::string_view to_string(FieldKind kind);
/// True if what reads field `field` by default can read one of that kind in its place.
bool can_stand_for(std::string_view field, FieldKind kind);

inline constexpr int64_t kBoxNumbers = 5;

/// int32 {N}: at least 0 in the rows that count; -1 in those that pad the last batch.
inline TensorDesc rows_desc(int64_t rows) { return {{rows}, DType::kInt32}; }

/// That field as a layer reads it beside `x`, N first. Labels are not mixed, targets have the form
/// of x.
inline TensorDesc field_beside(const TensorDesc& x, std::string_view field) {
  if (field == kLabelsField) return labels_beside(x);
  return field == kRowsField ? rows_desc(x.shape[0]) : x;
}

struct BatchField {
  std::string name;
  FieldKind kind = FieldKind::kImages;
  TensorDesc desc;  // of a whole batch
  /// Of kClasses and kMixedClasses: labels are 0 .. classes - 1, and -1 in rows to leave out; of kBoxes likewise.
  int64_t classes = 0;
};

/// "labels (classes)"
std::string text_of(const BatchField& field);

/// A field of which a data set holds a record of one size for each sample: float32 numbers
/// (kNumbers; 0 in rows that pad), int32 classes (kClasses; -1 there), or boxes {M, kBoxNumbers}
/// (kBoxes; Box of data/batch/boxes.h), which come with a field of their counts, kBoxCountsField. Targets
/// of a table are numbers {K}; tokens would be classes {T}. Augmentation moves boxes with their
/// image and leaves other records as they are.
struct RecordField {
  std::string name;
  FieldKind kind = FieldKind::kNumbers;
  Shape shape = {};     // of a sample, up to three axes; of a single value none
  int64_t classes = 0;  // of kClasses and kBoxes, as BatchField's
  /// Names of the elements, as of columns of a table, or of the classes of boxes; may be empty.
  std::vector<std::string> elements = {};

  BatchField of_batch(int64_t rows) const {
    const bool classes_alone = kind == FieldKind::kClasses;
    return {
        name, kind, {shape.behind(rows), classes_alone ? DType::kInt32 : DType::kFloat32}, classes};
  }
};

/// A batch in memory: its fields by their names.
using FieldTensors = std::map<std::string, Tensor, std::less<>>;

/// All names that fields may have.
inline const std::vector<std::string>& field_names() {
  static const std::vector<std::string> names = {
      std::string(kImagesField), std::string(kLabelsField), std::string(kTargetsField),
      std::string(kRowsField),   std::string(kBoxesField),  std::string(kBoxCountsField)};
  return names;
}

/// The fields of a data set of labelled images.
inline std::vector<BatchField> labelled_images(const TensorDesc& images, int64_t classes) {
  const int64_t rows = images.shape[0];
  return {{std::string(kImagesField), FieldKind::kImages, images},
          {std::string(kLabelsField), FieldKind::kClasses, labels_desc(rows), classes},
          {std::string(kRowsField), FieldKind::kRows, rows_desc(rows)}};
}

}  // namespace duet
