// What a network will do, before any of it exists: its calls in their order, the values that go
// between them, and how long each value is needed. Made from the resolved layers alone: needs
// neither a device nor memory.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "net/resolve.h"

namespace duet {

/// kInference: no gradients, no backward passes, dropout off and statistics as they are saved.
/// kGradients: both as in kInference, forward and backward: the gradients of what is predicted.
enum class NetMode { kTraining, kInference, kGradients };

/// One pass of one layer, by its number.
struct PlannedCall {
  int layer;
  Pass pass;
};

/// An activation, a field of the batch, or the gradient of an activation.
struct PlannedValue {
  TensorDesc desc;
  bool gradient = false;
  /// The layer that makes it, by its number; kField for what comes with the batch, for the
  /// gradients of losses, which are set once, and for result_gradient.
  int producer = kField;
  /// The layers that read it, in the order of their calls. A view (flatten) is none: its output is
  /// its input.
  std::vector<int> readers = {};
  /// The first and the last call that needs it, by their numbers in NetPlan::calls; -1 if it is
  /// there before, calls.size() if it is needed after them. Nobody needs it if last < first.
  int first = 0;
  int last = -1;
};

inline constexpr int kNoValue = -1;

/// The values of a layer as LayerTensors has them, by their numbers in NetPlan::values, or
/// kNoValue.
struct PlannedLayer {
  std::vector<int> x, y, dx, dy;
};

struct NetPlan {
  /// Of a step: forward passes first to last, then backward passes last to first.
  std::vector<PlannedCall> calls;
  size_t forward_calls = 0;
  std::vector<PlannedValue> values;
  std::vector<PlannedLayer> layers;
  std::map<std::string, int> fields;           // those that are read, by name: their values
  std::map<std::string, int> field_gradients;  // those that resolve() was asked for
  std::vector<int> losses;                     // layers
  /// What the network makes, which in one with losses layer result_reader reads (result_reader()).
  int result = kNoValue;
  int result_reader = kField;
  /// Of a network without losses: the layer whose first output is `result`, and its gradient, which
  /// starts the backward pass, if there is one.
  int result_layer = -1;
  int result_gradient = kNoValue;
};

/// What a backward pass of a layer, by its number, reads of its x and y (Implementation::reads()).
using PassReads = std::function<SavedTensors(size_t layer, Pass pass)>;

/// `layers` came from resolve() without errors, perhaps without_losses(); but for kInference every
/// layer then leads to the result, which no layer reads (net/prediction.h). Activations are needed
/// from the call that makes them to the last that reads them, and where backward passes follow at
/// least to the end of forward, which also evaluates; gradients from the first call to the last
/// that needs them, and those of fields to the end. Without `reads` every backward pass may read x and y.
NetPlan plan(const std::vector<ResolvedLayer>& layers, NetMode mode, const PassReads& reads = {});

/// The last call beside which that one may still run (Net::run_aside): what it reads is kept until
/// then. A call that is no backward_filter runs alone.
int last_beside(const NetPlan& plan, int call);

}  // namespace duet
