#include "train/step/trace.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "device/range.h"
#include "device/stream_times.h"

namespace duet {
namespace {

using nlohmann::json;
using Clock = StreamTimes::Clock;

constexpr int kDevice = 1, kHost = 2;                      // processes of the trace
constexpr int kOperations = 1, kReplays = 2, kCopies = 3;  // tracks of kDevice
constexpr int kQueue = 1, kFirstThread = 2;                // tracks of kHost

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

std::vector<StagedBatch> filled_since(Clock::time_point zero, const StreamRecord& record) {
  std::vector<StagedBatch> batches;
  for (const BatchFiller::Filled& part : record.filled) {
    batches.push_back({part.batch,
                       part.thread,
                       {microseconds(part.start - zero), microseconds(part.end - zero)}});
  }
  return batches;
}

StepTrace trace_on_cpu(Training& training, size_t steps) {
  StepTrace trace;
  const auto zero = Clock::now();
  StreamRecord record;
  training.batches().record(&record);
  const auto now = [&] { return microseconds(Clock::now() - zero); };
  const Program& operations = training.program();
  for (size_t step = 0; step < steps; ++step) {
    training.stage();
    trace.steps.push_back({now()});
    for (size_t i = 0; i < operations.size(); ++i) {
      const double start = now();
      operations[i].queue();
      const Span span = {start, now()};
      trace.operations.push_back({i, step, span, span});
    }
    trace.steps.back().end = trace.operations.back().ran.end;
  }
  training.batches().record(nullptr);
  trace.filled = filled_since(zero, record);
  return trace;
}

StepTrace trace_on_gpu(Training& training, size_t steps) {
  StepTrace trace;
  StreamTimes times(training.context());
  StreamRecord record{.times = &times};
  training.batches().record(&record);
  const auto now = [&] { return microseconds(Clock::now() - times.zero()); };
  const Program& operations = training.program();
  std::vector<size_t> marks;  // around the operations, and around the replays
  for (size_t step = 0; step < steps; ++step) {
    training.stage();
    times.hold();
    marks.push_back(times.mark());
    for (size_t i = 0; i < operations.size(); ++i) {
      const double start = now();
      operations[i].queue();
      trace.operations.push_back({i, step, {}, {start, now()}});
      marks.push_back(times.mark());
    }
    times.release();
  }
  const bool replays = training.has_graph();
  if (replays) {
    training.stage();
    marks.push_back(times.mark());
    for (size_t step = 0; step < steps; ++step) {
      training.step();
      marks.push_back(times.mark());
    }
  }
  training.batches().record(nullptr);

  const std::vector<double> all = times.microseconds();
  const auto at = [&](size_t mark) { return all[marks[mark]]; };
  size_t mark = 0;
  for (TracedOperation& traced : trace.operations) {
    if (traced.operation == 0) {
      if (traced.step > 0) ++mark;  // from the end of a step to the start of the next
      trace.steps.push_back({at(mark)});
    }
    traced.ran = {at(mark), at(mark + 1)};
    trace.steps.back().end = at(++mark);
  }
  for (++mark; replays && mark + 1 < marks.size(); ++mark) {
    trace.graph_steps.push_back({at(mark), at(mark + 1)});
  }
  trace.filled = filled_since(times.zero(), record);
  for (const StreamRecord::Copy& copy : record.copies) {
    trace.copied.push_back({copy.step, 0, {all[copy.marks.begin], all[copy.marks.end]}});
  }
  return trace;
}

// Whole nanoseconds in microseconds, and a quarter, so that a reader that cuts or rounds after
// multiplying finds just these: Perfetto drops an event that ends after the one around it.
double in_microseconds(int64_t nanoseconds) {
  return (static_cast<double>(nanoseconds) + 0.25) / 1e3;
}

json complete_event(const std::string& name, const std::string& category, int process, int track,
                    const Span& span, const json& args) {
  const int64_t start = std::llround(1e3 * span.start), end = std::llround(1e3 * span.end);
  return {{"ph", "X"},
          {"name", name},
          {"cat", category},
          {"pid", process},
          {"tid", track},
          {"ts", in_microseconds(start)},
          {"dur", in_microseconds(end - start)},
          {"args", args}};
}

void name_track(json& events, int process, int track, const std::string& name) {
  events.push_back({{"ph", "M"},
                    {"name", "thread_name"},
                    {"pid", process},
                    {"tid", track},
                    {"args", {{"name", name}}}});
}

void name_process(json& events, int process, const std::string& name) {
  events.push_back(
      {{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"args", {{"name", name}}}});
  events.push_back({{"ph", "M"},
                    {"name", "process_sort_index"},
                    {"pid", process},
                    {"args", {{"sort_index", process}}}});
}

json args_of(const Operation& operation, size_t step, const Span& span) {
  json args = {{"step", step + 1}, {"microseconds", span.end - span.start}};
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) args[key] = value;
  };
  add("layer", operation.layer);
  add("pass", operation.pass);
  add("implementation", operation.implementation);
  add("problem", operation.problem());
  if (operation.call) args["workspace_bytes"] = operation.workspace_bytes();
  return args;
}

}  // namespace

StepTrace trace_steps(Training& training, size_t steps) {
  const Range range("trace");
  if (training.context().device() == Device::kCpu) return trace_on_cpu(training, steps);
  return trace_on_gpu(training, steps);
}

json trace_json(const StepTrace& trace, const Training& training, const json& about) {
  const bool gpu = training.context().device() == Device::kGpu;
  json events = json::array();
  name_process(events, kDevice, gpu ? "GPU: " + gpu_name() : "CPU");
  name_track(events, kDevice, kOperations, "steps and their operations");
  for (size_t step = 0; step < trace.steps.size(); ++step) {
    events.push_back(complete_event("step " + std::to_string(step + 1), "step", kDevice,
                                    kOperations, trace.steps[step], {{"step", step + 1}}));
  }
  for (const TracedOperation& traced : trace.operations) {
    const Operation& operation = training.program()[traced.operation];
    events.push_back(complete_event(operation.name(), operation.pass, kDevice, kOperations,
                                    traced.ran, args_of(operation, traced.step, traced.ran)));
  }
  if (!trace.graph_steps.empty()) name_track(events, kDevice, kReplays, "steps as a CUDA graph");
  for (size_t i = 0; i < trace.graph_steps.size(); ++i) {
    const size_t step = trace.steps.size() + i;
    events.push_back(complete_event("step " + std::to_string(step + 1), "graph", kDevice, kReplays,
                                    trace.graph_steps[i], {{"step", step + 1}}));
  }
  const auto staged = [&](const char* name, int process, int track, const StagedBatch& batch) {
    events.push_back(complete_event(name, "batch", process, track, batch.span,
                                    {{"batch_of_step", batch.step + 1}}));
  };
  if (!trace.copied.empty()) name_track(events, kDevice, kCopies, "copies of batches");
  for (const StagedBatch& batch : trace.copied) staged("copy", kDevice, kCopies, batch);
  if (gpu || !trace.filled.empty()) name_process(events, kHost, "host");
  std::set<int> threads;
  for (const StagedBatch& batch : trace.filled) {
    const int track = kFirstThread + batch.thread;
    if (threads.insert(track).second) {
      name_track(events, kHost, track, "batches, thread " + std::to_string(batch.thread + 1));
    }
    staged("prepare", kHost, track, batch);
  }
  if (gpu) {
    name_track(events, kHost, kQueue, "queueing");
    for (const TracedOperation& traced : trace.operations) {
      const Operation& operation = training.program()[traced.operation];
      events.push_back(complete_event(operation.name(), "queue", kHost, kQueue, traced.queued,
                                      args_of(operation, traced.step, traced.queued)));
    }
  }
  return {{"traceEvents", events}, {"displayTimeUnit", "ns"}, {"otherData", about}};
}

}  // namespace duet
