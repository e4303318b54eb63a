// What a network's inputs and outputs mean, as text that its checkpoints and run.json hold.
#pragma once

#include <string>

#include "data/set/dataset.h"

namespace duet {

/// One JSON object on one line: name, fingerprint (fingerprint.h), channels, height, width, input
/// (the formula that mean and stddev belong to), mean and stddev a channel, classes (names);
/// of a table with a header columns (names of the numbers), and targets (names of theirs).
std::string dataset_metadata(const DatasetInfo& info, const std::string& fingerprint);

/// The data set that such text describes, without targets. Throws DataError, saying what is wrong
/// with the text, unless all of it is there and makes sense.
DatasetInfo read_dataset_metadata(const std::string& text);

}  // namespace duet
