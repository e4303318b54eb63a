#include "device/graph_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "device/step_graph.h"
#include "device/stopwatch.h"

namespace duet {
namespace {

constexpr double kGraphMicroseconds = 400;  // repetitions fill a graph to about that
constexpr double kMostRepetitions = 20;
constexpr double kReplayMicroseconds = 10;  // more than a replay costs beside its kernels
constexpr int kReplays = 7;

double microseconds_of_replay(Stopwatch& stopwatch, StepGraph& graph) {
  stopwatch.start();
  graph.launch();
  return 1e6 * stopwatch.stop();
}

}  // namespace

double microseconds_in_graph(Context& context, const std::function<void()>& queue,
                             double hopeless) {
  // Libraries load kernels on first use: that took up to 20 times as long as the kernel itself.
  queue();
  context.synchronize();
  Stopwatch stopwatch(context);
  StepGraph once(context, queue);
  microseconds_of_replay(stopwatch, once);
  const double rough = microseconds_of_replay(stopwatch, once);
  if (rough > hopeless + kReplayMicroseconds) return rough - kReplayMicroseconds;

  const int repetitions =
      static_cast<int>(std::clamp(std::ceil(kGraphMicroseconds / rough), 1.0, kMostRepetitions));
  StepGraph graph(context, [&] {
    for (int i = 0; i < repetitions; ++i) queue();
  });
  microseconds_of_replay(stopwatch, graph);
  std::vector<double> times(kReplays);
  for (double& time : times) time = microseconds_of_replay(stopwatch, graph) / repetitions;
  std::nth_element(times.begin(), times.begin() + kReplays / 2, times.end());
  return times[kReplays / 2];
}

}  // namespace duet
