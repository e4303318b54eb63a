// Test doubles: implementations of linear and conv2d that cheat or slip, one for every way known.
// They stand in the lists only of test programs that call register_doubles().
#pragma once

#include <string>
#include <vector>

#include "measure/examine.h"

namespace duet {

struct DoubleInfo {
  std::string id;   // "cpu_double_zeros" or "custom_double_zeros"
  FaultKind fault;  // as what it must be caught
  bool in_forward;  // false: it is sound there
};

/// The batch for which the doubles that are right on one shape only are right: one on no other
/// batch, one on no other size of images.
inline constexpr int kBenchedBatch = 64;

/// Appends the doubles of `device` to the lists of linear and conv2d, once, and returns them.
const std::vector<DoubleInfo>& register_doubles(Device device);

}  // namespace duet
