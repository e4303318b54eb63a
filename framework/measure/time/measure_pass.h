// One pass of one problem by several implementations: first whether each is right, then how long
// each takes, side by side.
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "measure/examine/examine.h"
#include "measure/time/timing.h"

namespace duet {

/// An implementation on a layer, and how thoroughly it is examined there. Candidates may have layers
/// of their own, of the same sizes in other layouts.
struct Candidate {
  const Layer* layer;
  std::string id;
  CheckLevel level = CheckLevel::kEverything;
};

/// On the CPU, the calls that an instance has made at least when it is checked for the last time,
/// however long one takes: blocks are counted in seconds, in which a slow machine may do one call.
inline constexpr int kLeastCalls = 16;

/// All that an implementation of the layer is told: its problem, layouts and arithmetic.
std::string task_text(const Layer& layer);

struct PassPlan {
  TimingPlan timing;
  bool cold = true;  // on a GPU also with the caches flushed before each call
  /// Without them nothing is examined: a candidate is held to what it gave before it was timed, and
  /// one instance of each is timed.
  bool checks = true;
  bool times = true;  // false: nothing is timed
  bool anew = true;   // rounds of times are of new instances; false: all of the same
  /// Bytes. Workspaces are known once a candidate is prepared: one whose workspaces, those of the
  /// candidates before it beside them, take more is refused with a fault, before it takes them.
  double workspace_room = std::numeric_limits<double>::infinity();
  /// Called, if there is one, before each candidate is examined and before every round of times;
  /// what it throws ends the measurement.
  std::function<void()> before_round = {};
  /// Another process takes over where an implementation leaves behind what nobody can undo: a
  /// UnusableProcessError tells of it.
  bool child = false;
};

struct PassMeasurement {
  Examination examination;
  std::string detail;          // Implementation::detail
  size_t workspace_bytes = 0;  // of this pass
  double prepare_seconds = 0;  // making and preparing it: searches, library start-up
  double examine_seconds = 0;
  /// Absent if the examination failed. One call; on a GPU replayed from a graph of many.
  std::optional<Times> warm;
  /// The same with the L2 cache full of something else. Absent on the CPU and if not asked for.
  std::optional<Times> cold;
};

/// Examines every candidate, times those that pass, interleaved, and compares them with the
/// reference once more afterwards, on the data they were timed on and, where `check_data` has them, on
/// others: who fails then loses its times too. Where a layer's tensors fit into a cache (L2 on a GPU),
/// every round is of new instances (time_anew). In the order of `candidates`. REQUIRES: `check_data` is of
/// candidates[0].layer or one of the same sizes and layouts; all run on the context's device and
/// support `pass`.
std::vector<PassMeasurement> measure_pass(const std::vector<Candidate>& candidates, Pass pass,
                                          const CheckData& check_data, Context& context,
                                          const PassPlan& plan);

}  // namespace duet
