// Fine-tuning: a training that begins with the weights of a file where it has them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "net/weights.h"

namespace duet {

struct InitialWeights {
  std::filesystem::path file;
  std::vector<std::string> skipped;  // parameters that were to be skipped
  std::vector<std::string> missing;  // parameters that the file does not have
  std::vector<std::string> unused;   // tensors of the file that no parameter is called as
};

/// Sets the parameters of a network, running statistics among them, to the tensors of their names in
/// a safetensors file (Duet's or PyTorch's), or in the best checkpoint of a run's folder. What is
/// called as one of `skip`, or is of a layer that is ("fc": "fc.weight" and "fc.bias"), and what is
/// missing keeps its initial values. What an optimizer keeps is passed by. Throws ConfigError: there
/// is no such file, or nothing that is called as one of `skip`; DataError: the file is damaged, has
/// tensors of another shape or type, each of which is named with both, or none that the network has.
InitialWeights take_initial_weights(const std::string& from, const std::vector<std::string>& skip,
                                    Weights& weights);

/// What a warning says of it; empty if every parameter was taken, and every tensor.
std::vector<std::string> warnings_of(const InitialWeights& taken);

}  // namespace duet
