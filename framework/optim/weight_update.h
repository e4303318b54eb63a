// One parameter's part of an update, for a kernel that has the parameter's whole gradient at hand: dw then
// needs no way through memory.
#pragma once

#include "core/step_state.h"
#include "optim/rules.h"

namespace duet {

/// A rule that is known in a run only: in a kernel code for all of them, where a template would be a kernel a rule. Not
/// RmspropRule: its bits differ from kernel to kernel, as compilers fuse its multiply-adds in one way or another.
struct AnyRule {
  enum class Kind : uint8_t { kSgd, kAdam };

  AnyRule(const SgdRule& rule) : kind(Kind::kSgd), sgd(rule) {}
  AnyRule(const AdamRule& rule) : kind(Kind::kAdam), adam(rule) {}

  Kind kind;
  SgdRule sgd;  // one of the two
  AdamRule adam;
};

/// All that it takes, in the memory of a GPU. Where updates() (optim/advance.h) says no, nothing is done.
struct WeightUpdate {
  AnyRule rule;
  bool decays = true;
  float* w = nullptr;  // of the parameter, as its states are; 256-byte aligned
  float* states[2] = {};
  const StepState* state = nullptr;
  const float* loss = nullptr;
};

}  // namespace duet
