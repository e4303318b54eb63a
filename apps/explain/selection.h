// Of all that was recorded, the calls that one pass needs.
#pragma once

#include <set>

#include "recorded_layer.h"

namespace duet {

struct Selection {
  std::vector<const Record*>
      setup;                       // what makes and sets the objects that the passes use, in order
  std::vector<const Record*> run;  // marks, calls and kernels of the passes
};

/// The last pass, and those before it if it reads what they leave.
Selection select(const RecordedLayer& recorded);

/// The memory of the layer in which `address` lies, or nullptr.
const NamedMemory* memory_at(const RecordedLayer& recorded, uintptr_t address);
/// Those that a variant pack of cuDNN's graph API has.
std::vector<uintptr_t> addresses_in(const Record& record);
/// Of an argument that is memory; 0 if it is nullptr or no memory.
uintptr_t address_of(const RecordedArgument& argument);

}  // namespace duet
