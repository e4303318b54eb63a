// Test doubles that are right when one layer is examined by itself, and wrong in a network, at
// another batch, in evaluation mode or in some instances only. They are implementations of linear.
#pragma once

#include "layers/linear/linear.h"
#include "support/double_base.h"

namespace duet {

/// The batch up to which "wrong_above" is right.
inline constexpr int kLargestRightBatch = 40;

/// In the list of linear while this lives:
///   shared_state         keeps forward's x in one memory for all instances
///   shared_workspace     keeps x in its forward's workspace until its backward_filter
///   writes_elsewhere     overwrites the start of another instance's y
///   wrong_above          is wrong for batches above kLargestRightBatch
///   wrong_in_evaluation  returns zeros with training off
///   idle_at_first        does nothing in instances made before set_idle_instances() says otherwise
struct NetworkDoubles : InList<LinearProblem> {
  explicit NetworkDoubles(Device device);
};

/// The next `count` instances of "idle_at_first" do nothing.
void set_idle_instances(int count);

}  // namespace duet
