#include "compare/step_outcomes.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "compare/format.h"
#include "compare/running_graph.h"
#include "core/interrupt.h"

namespace duet {
namespace {

bool same_bits(const StepState& a, const StepState& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool same_bits(const StepOutcome& a, const StepOutcome& b) {
  return a.parameters == b.parameters && same_bits(a.training, b.training) &&
         same_bits(a.evaluation, b.evaluation);
}

std::string words(const StepState& state) {
  if (state.halted) return "a loss that is not finite";
  return "a mean loss of " + format_significant(metrics_of(state).loss);
}

// "812 timed training steps end with ..., the same steps untimed with ..."
Fault difference(const StepOutcome& timed, const StepOutcome& other, const std::string& others) {
  const bool training =
      timed.parameters != other.parameters || !same_bits(timed.training, other.training);
  const StepState& a = training ? timed.training : timed.evaluation;
  const StepState& b = training ? other.training : other.evaluation;
  const std::string in_a = words(a), in_b = words(b);
  return {FaultKind::kWrongWhenTimed,
          "does something else while it is timed: " +
              std::to_string(training ? timed.steps : timed.evaluations) +
              (training ? " timed training steps" : " timed inferences") + " give " + in_a + ", " +
              others + " " + (in_a == in_b ? "nearly that, with other bits" : in_b) +
              ": no time is given"};
}

}  // namespace

StepOutcome step_outcome(RunningArm& arm, int64_t steps, int64_t evaluations) {
  Training& training = arm.training();
  std::string bytes;
  for (const Tensor& w : {training.weights().trained(), training.weights().buffers()}) {
    const size_t before = bytes.size();
    bytes.resize(before + w.bytes());
    if (w.bytes())
      copy_bytes(bytes.data() + before, Device::kCpu, w.memory, arm.context().device(), w.bytes());
  }
  return {steps, evaluations, training.state(), training.evaluation().state(),
          std::hash<std::string_view>()(bytes)};
}

std::optional<Fault> check_outcomes(RunningArm& fresh, std::vector<StepOutcome> timed) {
  Training& training = fresh.training();
  std::sort(timed.begin(), timed.end(), [](const StepOutcome& a, const StepOutcome& b) {
    return std::tie(a.steps, a.evaluations) < std::tie(b.steps, b.evaluations);
  });
  StepOutcome untimed = {.steps = 0, .evaluations = -1};
  for (const StepOutcome& outcome : timed) {
    if (outcome.steps != untimed.steps || outcome.evaluations != untimed.evaluations) {
      for (int64_t i = untimed.steps; i < outcome.steps; ++i) {
        run_interruptibly([&] { queue(training.program()); });
      }
      training.evaluation().restart();
      for (int64_t i = 0; i < outcome.evaluations; ++i) {
        const auto graph = running_graph(fresh, "the evaluation of a batch");
        run_interruptibly([&] { training.evaluation().step(); });
      }
      fresh.context().synchronize();
      untimed = step_outcome(fresh, outcome.steps, outcome.evaluations);
    }
    if (!same_bits(outcome, untimed))
      return difference(outcome, untimed, "the same number untimed");
  }
  return {};
}

double least_step_seconds(const Ceilings& ceilings, RunningArm& arm, bool training) {
  double seconds = 0;
  for (const Net::Call& call : arm.training().net().calls()) {
    if (!training && call.step->pass != Pass::kForward) continue;
    seconds += least_seconds(ceilings, arm.context().device(), *call.node->layer, call.step->pass);
  }
  return seconds;
}

}  // namespace duet
