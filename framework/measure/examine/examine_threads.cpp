// Whether the number of threads decides what an implementation computes. Kernels of a file may use
// OpenMP; implementations of the tree share loops that give the same bits for any number
// (core/parallel.h).
#include "core/interrupt.h"
#include "core/openmp.h"
#include "core/parallel.h"
#include "device/stopwatch.h"
#include "measure/check/classify.h"
#include "measure/examine/examine_checks.h"

namespace duet {
namespace {

constexpr int kSeveral = 4;  // also where there are fewer cores
constexpr int kMostRuns = 200;
constexpr double kSeconds = 0.02;

class Threads {
 public:
  explicit Threads(int threads) : before_(openmp::threads()) { openmp::set_threads(threads); }
  ~Threads() { openmp::set_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  const int before_;
};

std::string finding(const ExamineSubject& subject, LayerRig& rig) {
  const CheckSet& set = subject.sets.first;
  rig.load(set.data());
  run_through(rig, set);
  const auto tensors = hold_to(set, rig);
  if (all_agree(tensors)) return "";
  return classify(tensors, rig.outputs(set.pass()), set.outputs()).text;
}

}  // namespace

std::optional<Fault> find_thread_bound(const ExamineSubject& subject, LayerRig& rig) {
  if (subject.context.device() == Device::kGpu || openmp::threads() == 0) return {};
  // More threads than cores begin and end at other times than they do among themselves: what waits
  // for nobody is then early.
  for (const int threads : {1, kSeveral, 2 * cpu_threads()}) {
    if (threads > 1 && threads < kSeveral) continue;
    const Threads set(threads);
    const Elapsed watch;
    const bool many = threads > cpu_threads();
    for (int run = 0; run == 0 || (many && run < kMostRuns && watch.seconds() < kSeconds); ++run) {
      const std::string wrong = finding(subject, rig);
      if (wrong.empty()) continue;
      return Fault{FaultKind::kThreadBound,
                   "depends on threads: with " + std::to_string(threads) + " of OpenMP it " +
                       wrong +
                       (run > 0 ? " (in call " + std::to_string(run + 1) + ": a race)" : "")};
    }
  }
  return {};
}

}  // namespace duet
