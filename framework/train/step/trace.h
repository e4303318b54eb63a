// Some consecutive steps on a timeline, for Perfetto and chrome://tracing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/step/training.h"

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

/// A batch that was prepared or copied for a step (from 0) while others ran. Of the host's `thread`.
struct StagedBatch {
  uint64_t step = 0;
  int thread = 0;
  Span span;
};

struct StepTrace {
  std::vector<TracedOperation> operations;  // in the order they ran
  std::vector<Span> steps;                  // from the start of the first operation
  std::vector<Span> graph_steps;            // replays that followed, if training uses a graph
  std::vector<StagedBatch> filled, copied;  // where the data are streamed
};

/// Trains `steps` steps call by call, and as many from the graph if there is one. On a GPU the
/// operations of a step are queued while it waits and then run one behind the other, as they do in
/// a graph; CUDA events between them tell when, and add some microseconds to each. REQUIRES:
/// training.prepare() was called; steps > 0.
StepTrace trace_steps(Training& training, size_t steps);

/// In the Trace Event Format. Process 1 has the device's tracks: the operations inside their steps,
/// the graph's steps and the copies of batches to it; process 2 the host's: queueing, on a GPU, and
/// the threads that prepare batches. Names are "layer pass", the
/// rest is in `args`. `about` becomes otherData.
nlohmann::json trace_json(const StepTrace& trace, const Training& training,
                          const nlohmann::json& about);

}  // namespace duet
