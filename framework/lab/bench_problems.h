// What bench measures: problems of one layer type, of a file, or of a network.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"
#include "layers/layer.h"

namespace duet {

/// One of: a layer type and its shape; a file of shapes; a network; suites.
struct ProblemSource {
  std::string layer;   // "conv2d"
  std::string shape;   // "n=1..64x2,c=3,..."; problem_words.h
  std::string shapes;  // path of a YAML file: problems: [{layer, shape, name}, ...]
  std::string config;  // path of a network's YAML file
  std::vector<std::string> suites = {};  // lab/suites.h
  std::string batch;  // "64", "1,8,64" or "1..1024x2": n of every problem; empty: as given
  std::string math;   // of every problem; empty: as given
};

struct BenchProblem {
  std::string suite;             // that it is of, or empty
  std::optional<bool> held_out;  // there
  std::string name;              // "conv1", or empty
  std::unique_ptr<Layer> layer;
  std::vector<Pass> passes;  // those that its network runs, or all
};

/// In the order of the source, for each of its batches. `device` decides which family resolves a
/// network. Throws ConfigError or UnsupportedError.
std::vector<BenchProblem> read_problems(const ProblemSource& source, Device device);

}  // namespace duet
