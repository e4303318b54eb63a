// Gradient and update in one kernel: where one kernel writes all of a weight's gradient, it can move the weight by it instead.
#pragma once

#include "layers/implementation.h"
#include "optim/weight_update.h"

namespace duet {

/// For tables, before the rule's name.
inline constexpr std::string_view kUpdatesWeight = "updates the weight by ";

/// What an Implementation may be besides: one whose backward_filter can, in place of dw[0], update w[0]. A network that asks
/// for it runs backward_data first, as that reads the weight.
class UpdatesWeight {
 public:
  /// Whether it can in this problem. After prepare(kBackwardFilter) always the same.
  virtual bool can_update() const = 0;
  /// Queues what backward_filter begins with and backward_data needs, where there is such a thing.
  virtual void begin_backward(const Run&, const LayerTensors&) {}
  /// Queues the rest of backward_filter, with `update` of w[0]: to the same bits as backward_filter and then the optimizer.
  virtual void backward_filter_with_update(const Run& run, const LayerTensors& t,
                                           const WeightUpdate& update) = 0;

 protected:
  ~UpdatesWeight() = default;
};

}  // namespace duet
