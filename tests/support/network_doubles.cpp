#include "support/network_doubles.h"

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>

#include "layers/linear/linear_impls.h"

namespace duet {
namespace {

enum class Trick {
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

class NetworkDouble : public Implementation {
 public:
  NetworkDouble(Trick trick, std::unique_ptr<Implementation> sound, const LinearProblem& problem)
      : trick_(trick),
        sound_(std::move(sound)),
        problem_(problem),
        idle_(trick == Trick::kIdleAtFirst && idle_instances()-- > 0) {}
  ~NetworkDouble() override {
    if (last_output().owner == this) last_output() = {};
  }

  void prepare(Pass pass, Context& context) override { sound_->prepare(pass, context); }
  size_t state_bytes() const override { return sound_->state_bytes(); }
  size_t workspace_bytes(Pass pass) const override {
    const size_t x = static_cast<size_t>(problem_.n) * problem_.in * sizeof(float);
    return std::max(sound_->workspace_bytes(pass), trick_ == Trick::kSharedWorkspace ? x : 0);
  }

  void run(Pass pass, Context& context, const LayerTensors& t) override {
    if (idle_) return;
    LayerTensors tensors = t;
    if (pass == Pass::kBackwardFilter && kept_x_) tensors.x[0].memory = kept_x_;
    sound_->run(pass, context, tensors);
    if (pass == Pass::kForward) run_after_forward(context, t);
    const bool wrong = (trick_ == Trick::kWrongAbove && problem_.n > kLargestRightBatch) ||
                       (trick_ == Trick::kWrongInEvaluation && !context.training());
    const Tensor& out = output(pass, t);
    if (wrong) context.queue_fill(out.memory, 0, out.bytes() / 8 * 4);
  }

 private:
  static const Tensor& output(Pass pass, const LayerTensors& t) {
    if (pass == Pass::kForward) return t.y[0];
    return pass == Pass::kBackwardFilter ? t.dw[0] : t.dx[0];
  }

  void run_after_forward(Context& context, const LayerTensors& t) {
    if (trick_ == Trick::kSharedState) kept_x_ = shared_memory(context.device()).data();
    if (trick_ == Trick::kSharedWorkspace) kept_x_ = context.workspace();
    if (kept_x_) context.queue_copy(kept_x_, t.x[0].memory, t.x[0].bytes());
    if (trick_ != Trick::kWritesElsewhere) return;
    const LastOutput& last = last_output();
    if (last.y && last.owner != this) context.queue_fill(last.y.memory, 0x3F, 4);
    last_output() = {this, t.y[0]};
  }

  const Trick trick_;
  const std::unique_ptr<Implementation> sound_;
  const LinearProblem problem_;
  const bool idle_;
  void* kept_x_ = nullptr;
};

/// The first of a family that can do all of `problem` and is no double.
const ImplEntry<LinearProblem>& sound_entry(std::string_view family, const LinearProblem& problem) {
  for (const auto& entry : linear_impls()) {
    if (!entry.id.starts_with(family) || entry.id.find("_double_") != entry.id.npos) continue;
    const bool all = !entry.unsupported(problem, Pass::kForward) &&
                     !entry.unsupported(problem, Pass::kBackwardFilter) &&
                     !entry.unsupported(problem, Pass::kBackwardData);
    if (all) return entry;
  }
  throw std::logic_error("nothing to make a double of");
}

template <Trick kTrick, Device kDevice>
std::unique_ptr<Implementation> make_double(const LinearProblem& problem, Context& context) {
  const auto& sound = sound_entry(kDevice == Device::kCpu ? "cpu_blas" : "custom", problem);
  return std::make_unique<NetworkDouble>(kTrick, sound.make(problem, context), problem);
}

std::string_view kept_id(Device device, const char* name) {
  static std::set<std::string> ids;  // entries hold views of these
  return *ids.insert(network_double(device, name)).first;
}

template <Device kDevice>
void append() {
  const std::vector<ImplEntry<LinearProblem>> doubles = {
      {kept_id(kDevice, "shared_state"), supports_all, make_double<Trick::kSharedState, kDevice>},
      {kept_id(kDevice, "shared_workspace"), supports_all,
       make_double<Trick::kSharedWorkspace, kDevice>},
      {kept_id(kDevice, "writes_elsewhere"), supports_all,
       make_double<Trick::kWritesElsewhere, kDevice>},
      {kept_id(kDevice, "wrong_above"), supports_all, make_double<Trick::kWrongAbove, kDevice>},
      {kept_id(kDevice, "wrong_in_evaluation"), supports_all,
       make_double<Trick::kWrongInEvaluation, kDevice>},
      {kept_id(kDevice, "idle_at_first"), supports_all, make_double<Trick::kIdleAtFirst, kDevice>},
  };
  auto& list = linear_impls();
  list.insert(list.end(), doubles.begin(), doubles.end());
}

}  // namespace

NetworkDoubles::NetworkDoubles(Device device) : before_(linear_impls().size()) {
  device == Device::kCpu ? append<Device::kCpu>() : append<Device::kGpu>();
}

NetworkDoubles::~NetworkDoubles() {
  auto& list = linear_impls();
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(before_), list.end());
}

std::string network_double(Device device, const std::string& name) {
  return (device == Device::kCpu ? "cpu_double_" : "custom_double_") + name;
}

void set_idle_instances(int count) { idle_instances() = count; }

}  // namespace duet
