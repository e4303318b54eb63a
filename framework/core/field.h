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
                                  kTargetsField = "targets", kRowsField = "rows";

/// kImages: pictures, or the numbers of a table, as a network stores activations. kNumbers: numbers
/// of any shape, N first, stored so too. kClasses: int32, a class a row as labels_desc(), or of any
/// shape, N first, a class at each place. kRows: int32, as rows_desc().
enum class FieldKind { kImages, kNumbers, kClasses, kRows };

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
  TensorDesc desc;      // of a whole batch
  int64_t classes = 0;  // of kClasses: labels are 0 .. classes - 1, and -1 in rows to leave out
};

/// A field of which a data set holds a record of one size for each sample: float32 numbers
/// (kNumbers; 0 in rows that pad) or int32 classes (kClasses; -1 there). Targets of a table are
/// numbers {K}; tokens would be classes {T}, and boxes with a count numbers {M, 5} beside a single
/// class, their count. Augmentation leaves records as they are.
struct RecordField {
  std::string name;
  FieldKind kind = FieldKind::kNumbers;
  Shape shape = {};                        // of a sample, up to three axes; of a single value none
  int64_t classes = 0;                     // of kClasses, as BatchField's
  std::vector<std::string> elements = {};  // their names, as of columns of a table; may be empty

  BatchField of_batch(int64_t rows) const {
    const bool numbers = kind == FieldKind::kNumbers;
    return {name, kind, {shape.behind(rows), numbers ? DType::kFloat32 : DType::kInt32}, classes};
  }
};

/// A batch in memory: its fields by their names.
using FieldTensors = std::map<std::string, Tensor, std::less<>>;

/// All names that fields may have.
inline const std::vector<std::string>& field_names() {
  static const std::vector<std::string> names = {
      std::string(kImagesField), std::string(kLabelsField), std::string(kTargetsField),
      std::string(kRowsField)};
  return names;
}

/// The fields of a data set of labelled images.
inline std::vector<BatchField> labelled_images(const TensorDesc& images, int64_t classes,
                                               bool mixed_labels = false) {
  return {{std::string(kImagesField), FieldKind::kImages, images},
          {std::string(kLabelsField), FieldKind::kClasses,
           labels_desc(images.shape[0], mixed_labels), classes},
          {std::string(kRowsField), FieldKind::kRows, rows_desc(images.shape[0])}};
}

}  // namespace duet
