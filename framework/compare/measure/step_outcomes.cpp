#include "compare/measure/step_outcomes.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "compare/measure/running_graph.h"
#include "compare/tables/format.h"
#include "core/interrupt.h"

namespace duet {
namespace {

bool same_bits(const StepState& a, const StepState& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

bool same_bits(const StepOutcome& a, const StepOutcome& b) {
  return a.parameters == b.parameters && same_bits(a.training, b.training) &&
         a.outputs == b.outputs;
}

size_t tensors_hash(const std::vector<Tensor>& tensors, Device device) {
  std::string bytes;
  for (const Tensor& tensor : tensors) {
    const size_t before = bytes.size();
    bytes.resize(before + tensor.bytes());
    if (tensor.bytes())
      copy_bytes(bytes.data() + before, Device::kCpu, tensor.memory, device, tensor.bytes());
  }
  return std::hash<std::string_view>()(bytes);
}

std::string words(const StepState& state) {
  if (state.halted) return "a loss that is not finite";
  return "a mean loss of " + format_significant(state.totals[0].mean());
}

// "812 timed training steps end with ..., the same steps untimed with ..."
Fault difference(const StepOutcome& timed, const StepOutcome& other, const std::string& others) {
  const bool training =
      timed.parameters != other.parameters || !same_bits(timed.training, other.training);
  std::string what;
  if (training) {
    const std::string in_a = words(timed.training), in_b = words(other.training);
    what = std::to_string(timed.steps) + " timed training steps give " + in_a + ", " + others +
           " " + (in_a == in_b ? "nearly that, with other bits" : in_b);
  } else {
    what = std::to_string(timed.inferences) +
           " timed inferences leave other outputs than an untimed evaluation of their batch";
  }
  return {FaultKind::kWrongWhenTimed,
          "does something else while it is timed: " + what + ": no time is given"};
}

}  // namespace

StepOutcome step_outcome(RunningArm& arm, int64_t steps, int64_t inferences) {
  Training& training = arm.training();
  const Device device = arm.context().device();
  StepOutcome outcome{.steps = steps, .inferences = inferences, .training = training.state()};
  outcome.parameters =
      tensors_hash({training.weights().trained(), training.weights().buffers()}, device);
  if (inferences > 0) outcome.outputs = tensors_hash({training.evaluation().outputs()}, device);
  return outcome;
}

std::optional<Fault> check_outcomes(RunningArm& fresh, std::vector<StepOutcome> timed) {
  Training& training = fresh.training();
  std::sort(timed.begin(), timed.end(), [](const StepOutcome& a, const StepOutcome& b) {
    return std::tie(a.steps, a.inferences) < std::tie(b.steps, b.inferences);
  });
  StepOutcome untimed = {.steps = 0, .inferences = -1};
  for (const StepOutcome& outcome : timed) {
    if (outcome.steps != untimed.steps || outcome.inferences != untimed.inferences) {
      for (int64_t i = untimed.steps; i < outcome.steps; ++i) {
        run_interruptibly([&] { queue(training.program()); });
      }
      training.evaluation().restart();
      if (outcome.inferences > 0) {  // of the same batch each time
        const auto graph = running_graph(fresh, "the evaluation of a batch");
        run_interruptibly([&] { training.evaluation().step(); });
        fresh.context().synchronize();
      }
      untimed = step_outcome(fresh, outcome.steps, outcome.inferences);
    }
    if (!same_bits(outcome, untimed))
      return difference(outcome, untimed, "the same number untimed");
  }
  return {};
}

double least_step_seconds(const Ceilings& ceilings, RunningArm& arm, bool training) {
  double seconds = 0;
  for (const Net::Call& call : arm.training().net().calls()) {
    const bool inference = call.step->pass == Pass::kForward && !call.node->layer->is_end();
    if (!training && !inference) continue;
    seconds += least_seconds(ceilings, arm.context().device(), *call.node->layer, call.step->pass);
  }
  return seconds;
}

}  // namespace duet
