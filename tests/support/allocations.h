// How often memory is taken by operator new, which this replaces in the tests.
#pragma once

#include <cstdint>

namespace duet {

/// Since the process began, by all threads.
uint64_t allocations();

}  // namespace duet
