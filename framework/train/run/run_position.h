#pragma once

#include <cstdint>

namespace duet {

/// How far a run has come.
struct RunPosition {
  int64_t epochs = 0;  // whole ones
  uint64_t steps = 0;  // in all
};

}  // namespace duet
