// What `trainer predict` does.
#pragma once

#include <string>
#include <vector>

#include "train/checkpoint/trained.h"

namespace duet {

struct PredictOptions {
  TrainedOptions trained;
  std::vector<std::string>
      images;       // files (data/set/pictures.h), or tables of a network of numbers
  int64_t top = 3;  // classes of each image, the likeliest first
  bool resize = false;
  std::string activations;  // folder for pictures of what layers make of each image; empty: none
  std::string out;          // folder for the pictures that the network makes
  bool json = false;        // one JSON object instead of a table
};

/// Prints the likeliest classes of each image, or row of a table, to standard output; where the
/// last loss reads no labels, the numbers that the network makes, by the names of their columns. Of
/// a network that makes pictures (images of 1 or 3 channels; result_reader()) it writes them as PNG
/// files instead: of FOLDER/name.jpg, in its own size, to OUT/name.png; a value v of the network
/// becomes the byte round(255 v), clamped. Throws duet::Error.
void run_predict(const PredictOptions& options);

}  // namespace duet
