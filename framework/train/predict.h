// What `trainer predict` does.
#pragma once

#include <string>
#include <vector>

#include "train/trained.h"

namespace duet {

struct PredictOptions {
  TrainedOptions trained;
  std::vector<std::string> images;  // files (data/pictures.h)
  int64_t top = 3;                  // classes of each image, the likeliest first
  bool resize = false;
  std::string activations;  // folder for pictures of what layers make of each image; empty: none
  bool json = false;        // one JSON object instead of a table
};

/// Prints the likeliest classes of each image to standard output. Throws duet::Error.
void run_predict(const PredictOptions& options);

}  // namespace duet
