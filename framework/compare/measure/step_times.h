// How long whole steps take, of training and of inference, all arms side by side.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compare/arms.h"
#include "compare/measure/network_check.h"
#include "measure/time/ceilings.h"
#include "measure/time/measure_pass.h"

namespace duet {

/// By arm.
struct StepTimes {
  int64_t batch = 0;
  std::vector<Times> training, inference;
  /// Of the first instance: with searches, and with what libraries do when they are first used.
  std::vector<double> prepare_seconds;
  /// Why an arm cannot run at this batch (out of memory, a batch larger than the training data, an
  /// implementation that refuses it), or empty. It has no times then.
  std::vector<std::string> errors;
  /// What is wrong in the network of an arm or in its steps at this batch. It has no times then.
  std::vector<std::vector<NetworkFault>> faults;

  bool has(size_t arm) const { return errors[arm].empty() && faults[arm].empty(); }
  /// The faults of an arm, a line each; empty if there are none.
  std::string fault_text(size_t arm) const;
  /// Of the arms that have times; nullptr for the others.
  std::vector<const Times*> pointers(const std::vector<Times>& times) const;
};

/// What steps of `batch` roughly take where they run on a CPU, from two steps of at most eight
/// images: enough to choose a batch and to tell the time left. Arms on a GPU, whose first instance
/// is timed with what its libraries do when they are first used, are taken to take no time.
StepTimes estimate_steps(const std::vector<Arm>& arms, const Dataset& dataset, int64_t batch);

/// Training is a whole step; inference is what a prediction does: a forward pass to the outputs, without the loss and with
/// dropout off. Both gather their batch.
///
/// Every round makes all arms anew (time_anew). On an H200 the step of fashion_mnist_cnn at batch
/// 64 takes 137 us by itself, and 140 to 145 us beside other arms, by instance.
///
/// What is timed is checked. Every timed instance starts from the same state, so that all of them
/// must end with the same bits: parameters, losses, and the outputs of the inference. One more
/// instance runs the same number of steps call by call, untimed, and must end with these bits, too;
/// then check_network() checks each of its layers. A step that is faster than least_seconds() of
/// its layers together is a fault.
class StepTimer {
 public:
  /// `arms` and `dataset` must outlive this.
  /// `progress`, if there is one, hears before every block and every check the share of a batch
  /// that is done.
  StepTimer(const std::vector<Arm>& arms, const Dataset& dataset, const TimingPlan& plan,
            const Ceilings& ceilings = {}, std::function<void(double)> progress = {})
      : arms_(arms),
        dataset_(dataset),
        plan_(plan),
        ceilings_(ceilings),
        progress_(std::move(progress)) {}

  /// Measured when it is first asked for. No arm may be in memory meanwhile that is not needed: all
  /// are once more.
  const StepTimes& at(int64_t batch);

 private:
  const std::vector<Arm>& arms_;
  const Dataset& dataset_;
  const TimingPlan plan_;
  const Ceilings ceilings_;
  const std::function<void(double)> progress_;
  std::map<int64_t, StepTimes> known_;  // by batch
};

}  // namespace duet
