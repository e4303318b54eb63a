// Some consecutive steps on a timeline, for Perfetto and chrome://tracing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/training.h"

namespace duet {

/// Microseconds since the start of the trace.
struct Span {
  double start = 0.0;
  double end = 0.0;
};

/// One operation in one step.
struct TracedOperation {
  size_t operation = 0;  // in Training::program()
  size_t step = 0;
  Span ran;
  Span queued;  // the host's call; on the CPU the same as `ran`
};

struct StepTrace {
  std::vector<TracedOperation> operations;  // in the order they ran
  std::vector<Span> steps;                  // from the start of the first operation
  std::vector<Span> graph_steps;            // replays that followed, if training uses a graph
};

/// Trains `steps` steps call by call, and as many from the graph if there is one. On a GPU the
/// operations of a step are queued while it waits and then run one behind the other, as they do in
/// a graph; CUDA events between them tell when, and add some microseconds to each. REQUIRES:
/// training.prepare() was called; steps > 0.
StepTrace trace_steps(Training& training, size_t steps);

/// In the Trace Event Format. Process 1 has the device's tracks: the operations inside their steps,
/// and the graph's steps; process 2, on a GPU, the host queueing them. Names are "layer pass", the
/// rest is in `args`. `about` becomes otherData.
nlohmann::json trace_json(const StepTrace& trace, const Training& training,
                          const nlohmann::json& about);

}  // namespace duet
