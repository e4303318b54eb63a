// Test doubles: implementations of linear and conv2d that cheat or slip, one for every way known.
#pragma once

#include <string>
#include <vector>

#include "layers/conv2d/conv2d.h"
#include "layers/linear/linear.h"
#include "measure/examine/examine.h"
#include "support/double_base.h"

namespace duet {

struct DoubleInfo {
  std::string id;   // "cpu_double_zeros" or "custom_double_zeros"
  FaultKind fault;  // as what it must be caught
  bool in_forward;  // false: it is sound there
};

/// The batch for which the doubles that are right on one shape only are right: one on no other
/// batch, one on no other size of images.
inline constexpr int kBenchedBatch = 64;

/// What a call of a rememberer takes that remembers nothing, in seconds. On a busy machine one that
/// remembers its last microseconds alone finds no call so close: it gains nothing then.
inline constexpr double kComputingRememberer = 200e-6;

/// The doubles of `device`, in the lists of linear and conv2d while this lives. infos() are those
/// that must be caught.
class Doubles {
 public:
  explicit Doubles(Device device);
  const std::vector<DoubleInfo>& infos() const { return infos_; }

 private:
  InList<LinearProblem> linear_;
  InList<Conv2dProblem> conv2d_;
  std::vector<DoubleInfo> infos_;
};

}  // namespace duet
