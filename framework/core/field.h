// The fields of a batch: what a data set gives for each sample, by names that 'inputs' of a layer
// may use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/labels.h"
#include "core/tensor.h"

namespace duet {

inline constexpr std::string_view kImagesField = "images", kLabelsField = "labels",
                                  kTargetsField = "targets", kRowsField = "rows";

/// kImages: pictures, or the numbers of a table, as a network stores activations. kClasses: int32,
/// as labels_desc(), or a label a position, N first. kRows: int32, as rows_desc().
enum class FieldKind { kImages, kClasses, kRows };

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
