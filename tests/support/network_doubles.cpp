#include "support/network_doubles.h"

#include <algorithm>
#include <memory>

namespace duet {
namespace {

enum class NetworkTrick {
  kSharedState,
  kSharedWorkspace,
  kWritesElsewhere,
  kWrongAbove,
  kWrongInEvaluation,
  kIdleAtFirst,
};

int& idle_instances() {
  static int count = 0;
  return count;
}

/// As large as any x of a test.
constexpr size_t kSharedBytes = 1 << 20;
Buffer& shared_memory(Device device) {
  static Buffer cpu, gpu;
  Buffer& buffer = device == Device::kCpu ? cpu : gpu;
  if (!buffer.data()) buffer = Buffer(device, kSharedBytes);
  return buffer;
}

/// The y of the instance that last ran forward, which is not the next one's.
struct LastOutput {
  const void* owner = nullptr;
  Tensor y;
};
LastOutput& last_output() {
  static LastOutput last;
  return last;
}

class NetworkDouble : public DoubleBase {
 public:
  NetworkDouble(NetworkTrick trick, std::unique_ptr<Implementation> sound,
                const LinearProblem& problem)
      : DoubleBase(std::move(sound)),
        trick_(trick),
        problem_(problem),
        idle_(trick == NetworkTrick::kIdleAtFirst && idle_instances()-- > 0) {}
  ~NetworkDouble() override {
    if (last_output().owner == this) last_output() = {};
  }

  size_t workspace_bytes(Pass pass) const override {
    const size_t x = static_cast<size_t>(problem_.n) * problem_.in * sizeof(float);
    return std::max(sound_->workspace_bytes(pass),
                    trick_ == NetworkTrick::kSharedWorkspace ? x : 0);
  }

  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    if (idle_) return;
    LayerTensors tensors = t;
    if (pass == Pass::kBackwardFilter && kept_x_) tensors.x[0].memory = kept_x_;
    sound_->run(pass, run, tensors);
    if (pass == Pass::kForward) run_after_forward(run, t);
    const bool wrong = (trick_ == NetworkTrick::kWrongAbove && problem_.n > kLargestRightBatch) ||
                       (trick_ == NetworkTrick::kWrongInEvaluation && !run.training);
    const Tensor& out = output(pass, t);
    if (wrong) run.context.queue_fill(out.memory, 0, out.bytes() / 8 * 4);
  }

 private:
  void run_after_forward(const Run& run, const LayerTensors& t) {
    if (trick_ == NetworkTrick::kSharedState) kept_x_ = shared_memory(run.context.device()).data();
    if (trick_ == NetworkTrick::kSharedWorkspace) kept_x_ = run.workspace;
    if (kept_x_) run.context.queue_copy(kept_x_, t.x[0].memory, t.x[0].bytes());
    if (trick_ != NetworkTrick::kWritesElsewhere) return;
    const LastOutput& last = last_output();
    if (last.y && last.owner != this) run.context.queue_fill(last.y.memory, 0x3F, 4);
    last_output() = {this, t.y[0]};
  }

  const NetworkTrick trick_;
  const LinearProblem problem_;
  const bool idle_;
  void* kept_x_ = nullptr;
};

template <NetworkTrick kTrick>
std::unique_ptr<Implementation> make_double(const LinearProblem& problem, Context& context) {
  return std::make_unique<NetworkDouble>(kTrick, make_sound(linear_impls(), problem, context),
                                         problem);
}

template <NetworkTrick kTrick>
ImplEntry<LinearProblem> entry(Device device, const char* name) {
  return {double_id(device, name), supports_all, make_double<kTrick>};
}

}  // namespace

NetworkDoubles::NetworkDoubles(Device device)
    : InList(linear_impls(),
             {entry<NetworkTrick::kSharedState>(device, "shared_state"),
              entry<NetworkTrick::kSharedWorkspace>(device, "shared_workspace"),
              entry<NetworkTrick::kWritesElsewhere>(device, "writes_elsewhere"),
              entry<NetworkTrick::kWrongAbove>(device, "wrong_above"),
              entry<NetworkTrick::kWrongInEvaluation>(device, "wrong_in_evaluation"),
              entry<NetworkTrick::kIdleAtFirst>(device, "idle_at_first")}) {}

void set_idle_instances(int count) { idle_instances() = count; }

}  // namespace duet
