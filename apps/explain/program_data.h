// The numbers of a program: what its inputs hold, and the values that its outputs must have.
#pragma once

#include <string>
#include <vector>

#include "measure/check/layer_data.h"
#include "recorded_layer.h"

namespace duet {

/// The values of a tensor, and the expression in C++ that gives them.
struct ProgramInput {
  std::string text;
  std::vector<float> values;
};
/// REQUIRES: `memory` is one of `recorded` that is read.
ProgramInput input_of(const RecordedLayer& recorded, const NamedMemory& memory);

/// The data of the whole layer, at step 0.
struct ProgramData {
  LayerData data;
  /// For each dy the elements that are 0 instead of what was drawn, because rounding decides
  /// whether relu or a pooling passes them on (Layer::settle). A forward pass reads no dy and has
  /// none.
  std::vector<std::vector<double>> zeroed;
};
ProgramData program_data(const RecordedLayer& recorded);

/// The memory that the recorded pass writes results to, in the order in which they are compared.
std::vector<const NamedMemory*> outputs_of(const RecordedLayer& recorded);
/// The sizes of a tensor, in the order of its memory.
std::vector<size_t> sizes_in_memory(const TensorDesc& desc);
/// How many numbers the file of values has.
size_t count_of_values(const RecordedLayer& recorded, const ProgramData& data);
/// The file: the places of `zeroed`; then for each output the RMS that the errors may have, the
/// values that the reference in double gives for the elements that are compared, and the error that
/// each of them may have.
std::vector<double> program_values(const RecordedLayer& recorded, const ProgramData& data);

}  // namespace duet
