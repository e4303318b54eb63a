// What an evaluation found, class by class, as people and programs read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/set/dataset.h"
#include "train/evaluate/evaluation.h"

namespace duet {

/// "val_loss", "val_accuracy", "val_top5" where there is one, "images", "classes", and where the
/// classes are not too many "confusion": images of each class (a row each) predicted as each.
nlohmann::json evaluation_json(const DatasetInfo& info, const Metrics& metrics);

/// Precision and recall of each class, and the confusion matrix; of more than kMostMatrixColumns
/// classes what is taken for something else most often.
std::string classes_text(const DatasetInfo& info, const Metrics& metrics);

inline constexpr size_t kMostMatrixColumns = 20;

}  // namespace duet
