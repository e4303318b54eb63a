// Times of several arms, measured side by side in one process.
//
// The arms run in blocks, in the order A B B A (A B C C B A): a machine that gets slower or faster
// while it is measured does so for all of them alike. Which arm is A is drawn anew: no arm has the
// better place. A block is many calls, long enough to swamp the timer. The first round is warm-up
// and is not counted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "device/context.h"
#include "measure/time/statistics.h"

namespace duet {

class StepGraph;

/// One arm. `seconds(calls)` runs the work `calls` times back to back and returns how long that
/// took, from the first to the end of the last.
struct Workload {
  std::function<double(int64_t calls)> seconds;
  /// What it runs, where that is known. Workloads of the same code are not told apart.
  std::string code = {};

  /// seconds_of() calls of `work`. REQUIRES: the context outlives it.
  static Workload of(Context& context, std::function<void()> work, std::string code = {});
};

struct TimingPlan {
  double block_seconds = 0.05;
  int rounds = 10;  // two blocks of every arm each
  int most_rounds =
      30;  // while a verdict is unclear; fewer on a busy machine, where they take long

  static TimingPlan full() { return {}; }
  static TimingPlan quick() { return {.block_seconds = 0.01, .rounds = 7}; }
  /// For one of hundreds of rows, whose mean is of interest: unclear verdicts stay unclear.
  static TimingPlan brief() { return {.block_seconds = 0.0025, .rounds = 7, .most_rounds = 7}; }
};

struct Times {
  std::vector<double> seconds;  // of one call; the mean of the arm's two blocks, a value a round
  int64_t calls = 0;            // in a block; more when an earlier count was too small
  std::string code = {};        // the workload's
  Summary summary() const { return summarise(seconds); }
};

/// Whether both are times of the same code, so that a difference would be noise.
inline bool same_code(const Times& a, const Times& b) {
  return !a.code.empty() && a.code == b.code;
}

/// The calls that fill a block of that length; runs the workload to find out.
int64_t calls_for(const Workload& workload, double block_seconds);

/// One round: the seconds of one call of each workload, whose blocks are calls[i] long.
std::vector<double> time_round(const std::vector<Workload>& workloads,
                               const std::vector<int64_t>& calls);

/// Measures all workloads. Stops after `rounds`, or, while the verdict between the first one and
/// any other is unclear, after `most_rounds`.
std::vector<Times> time_interleaved(const std::vector<Workload>& workloads, const TimingPlan& plan);

/// Makes what is to be timed and returns how to time it: groups, each of workloads that run side
/// by side. All rounds have the same ones; a workload without a function is left out, from then
/// on. What they refer to lives until the next call.
using MakeGroups = std::function<std::vector<std::vector<Workload>>(int round)>;

/// As time_interleaved(), but every round is of what make(round) makes anew, whose memory should
/// lie elsewhere each time (Displacement). How much of the work stays in a cache depends on where
/// its tensors lie and on what else the process has done, and is the same in every call of one
/// instance: repeating one would only make a wrong difference certain. In the order of the groups
/// and workloads; one that was left out of a round has fewer times.
std::vector<std::vector<Times>> time_anew(const MakeGroups& make, const TimingPlan& plan);

/// Moves what is made next to another place in memory: takes some more with every call, while that
/// which is to move is released, and keeps it. Memory that cannot be had is done without.
class Displacement {
 public:
  explicit Displacement(Device device) : device_(device) {}
  void grow();

 private:
  Device device_;
  std::vector<Buffer> kept_;
};

/// Seconds that `calls` calls of `work` take, which queues work on the context. On a GPU between
/// two events on its stream, with the whole device idle before and after; on the CPU by the steady
/// clock. Throws InterruptedError within one call of an interrupt.
double seconds_of(Context& context, const std::function<void()>& work, int64_t calls);
/// The least that one call takes in `tries`.
double least_seconds_of(Context& context, const std::function<void()>& work, int tries);

/// How often a graph must hold what `once` replays, which is 1 to `most` times, to take about a
/// millisecond. REQUIRES: `once` has run before.
int calls_in_graph(Context& context, StepGraph& once, int most);

}  // namespace duet
