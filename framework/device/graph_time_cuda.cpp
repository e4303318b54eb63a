#include "device/graph_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/check.h"
#include "device/step_graph.h"

namespace duet {
namespace {

constexpr double kGraphMicroseconds = 400;  // repetitions fill a graph to about that
constexpr double kMostRepetitions = 20;
constexpr double kReplayMicroseconds = 10;  // more than a replay costs beside its kernels
constexpr int kReplays = 7;

struct Event {
  cudaEvent_t event = nullptr;
  Event() { DUET_CUDA(cudaEventCreate(&event)); }
  ~Event() { cudaEventDestroy(event); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
};

double microseconds_of_replay(Context& context, StepGraph& graph) {
  const Event begin, end;
  DUET_CUDA(cudaEventRecord(begin.event, context.stream()));
  graph.launch();
  DUET_CUDA(cudaEventRecord(end.event, context.stream()));
  DUET_CUDA(cudaEventSynchronize(end.event));
  float milliseconds = 0.0f;
  DUET_CUDA(cudaEventElapsedTime(&milliseconds, begin.event, end.event));
  return milliseconds * 1e3;
}

}  // namespace

double microseconds_in_graph(Context& context, const std::function<void()>& queue,
                             double hopeless) {
  // Libraries load kernels on first use: that took up to 20 times as long as the kernel itself.
  queue();
  context.synchronize();
  StepGraph once(context, queue);
  microseconds_of_replay(context, once);
  const double rough = microseconds_of_replay(context, once);
  if (rough > hopeless + kReplayMicroseconds) return rough - kReplayMicroseconds;

  const int repetitions =
      static_cast<int>(std::clamp(std::ceil(kGraphMicroseconds / rough), 1.0, kMostRepetitions));
  StepGraph graph(context, [&] {
    for (int i = 0; i < repetitions; ++i) queue();
  });
  microseconds_of_replay(context, graph);
  std::vector<double> times(kReplays);
  for (double& time : times) time = microseconds_of_replay(context, graph) / repetitions;
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

}  // namespace duet
