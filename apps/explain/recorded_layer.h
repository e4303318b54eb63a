// A pass of one layer by itself, run once under the recorder.
#pragma once

#include <map>

#include "measure/check/layer_data.h"
#include "recording.h"

namespace duet {

/// Memory of the layer, under the name that a reader knows it by.
struct NamedMemory {
  enum class Role { kRead, kWritten, kState, kWorkspace };
  std::string name;  // x, w, b, y, dy, dx, dw, db, x1, x2, ..., state, workspace
  Role role = Role::kRead;
  uintptr_t address = 0;
  size_t bytes = 0;
  TensorDesc desc = {};     // of all but state and workspace
  std::string output = {};  // of what a pass writes, NamedValues::name
  /// The values of an input are (data.*part)[index] of the layer's data.
  std::vector<std::vector<double>> LayerData::*part = nullptr;
  size_t index = 0;
};

struct RecordedLayer {
  std::shared_ptr<const Layer> layer;
  std::string id;
  Pass pass = Pass::kForward;
  bool measured = true;  // false: there was no GPU, and the choice of algorithms is this program's
  std::string detail;    // Implementation::detail()
  std::vector<NamedMemory> memory;
  /// Making the implementation, preparing, and behind a mark each, "pass forward", the passes. Those
  /// before `pass` are there where it depends on what they leave.
  std::vector<Record> records;
  /// Of memory that the implementation holds and a call reads: what is in it, by its address.
  std::map<uintptr_t, std::vector<std::byte>> contents;
};

/// From here on what cannot be measured without a GPU is decided by this program.
void stand_in_for_measurements();

/// REQUIRES: recorder_is_loaded(), and implementation `id` supports `pass`.
RecordedLayer record_layer(std::shared_ptr<const Layer> layer, const std::string& id, Pass pass,
                           size_t workspace_limit);

}  // namespace duet
