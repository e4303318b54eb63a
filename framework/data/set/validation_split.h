// Validation data for a data set that has none of its own: some of its training data.
#pragma once

#include <cstdint>
#include <optional>

#include "core/config.h"
#include "data/set/dataset.h"

namespace duet {

struct ValidationSplit {
  double fraction = 0.1;
  std::optional<int64_t> count;  // instead of the fraction
  uint64_t seed = 1;
  bool stratified = true;  // as many of each class as its share of the training data
};

/// Reads the map under `validation_split`, whose defaults are those above.
ValidationSplit read_validation_split(ConfigReader& reader);

/// Moves samples from data.train to data.validation; both keep their order. Which they are follows
/// from the seed and the labels alone. Throws DataError if nothing would be left of either.
void hold_out(Dataset& data, const ValidationSplit& split);

}  // namespace duet
