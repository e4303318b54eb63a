#include "support/doubles.h"

#if DUET_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <thread>

#include "core/arena.h"
#include "core/parallel.h"
#include "support/double_kernels.h"
#include "support/tf32.h"

namespace duet {
namespace {

enum class Trick {
  kZeros,
  kPreviousOutput,
  kHalf,
  kLeavesOutput,
  kReadsWorkspace,
  kLowPrecision,
  kOtherStream,
  kLateBehindZeros,
  kChangesX,
  kChangesW,
  kChangesDy,
  kChangesY,
  kKeepsInState,
  kCachesByPointer,
  kOneBatch,
  kOneImageSize,
  kFirstTime,
  kNaNInGuard,
  kReadsBeyond,
  kUnrepeatable,
  kMoreWorkspace,
  kWrongLater,
  kTrustsOutput,
  kTrustsState,
  kTrustsWorkspace,
  kEveryThird,
  kStopsComputing,
  kOtherGradient,
  kChangesStep,
  kDamagesLater,
  kSharesState,
  kKeepsInWorkspace,
  kNowAndThen,
  kRemembersInputs,
  kRemembersSamples,
  kRemembersWeights,
  kRemembersStep,
  kRemembersBriefly,
};

struct TrickRow {
  Trick trick;
  const char* name;
  FaultKind fault;
  bool in_forward = true;
};
constexpr TrickRow kTricks[] = {
    {Trick::kZeros, "zeros", FaultKind::kZeros},
    {Trick::kPreviousOutput, "previous_output", FaultKind::kPreviousOutput},
    {Trick::kHalf, "half", FaultKind::kHalfWritten},
    {Trick::kLeavesOutput, "leaves_output", FaultKind::kUnwritten},
    {Trick::kReadsWorkspace, "reads_workspace", FaultKind::kUnwritten},
    {Trick::kLowPrecision, "low_precision", FaultKind::kLowPrecision},
    {Trick::kOtherStream, "other_stream", FaultKind::kReturnsEarly},
    {Trick::kLateBehindZeros, "late_behind_zeros", FaultKind::kReturnsEarly},
    {Trick::kChangesX, "changes_x", FaultKind::kChangesInput},
    {Trick::kChangesW, "changes_w", FaultKind::kChangesInput},
    {Trick::kChangesDy, "changes_dy", FaultKind::kChangesInput},
    {Trick::kChangesY, "changes_y", FaultKind::kChangesInput},
    {Trick::kKeepsInState, "keeps_in_state", FaultKind::kFirstTimeOnly},
    {Trick::kCachesByPointer, "caches_by_pointer", FaultKind::kCached},
    {Trick::kOneBatch, "one_batch", FaultKind::kShapeBound},
    {Trick::kOneImageSize, "one_image_size", FaultKind::kShapeBound},
    {Trick::kFirstTime, "first_time", FaultKind::kFirstTimeOnly},
    {Trick::kNaNInGuard, "nan_in_guard", FaultKind::kOverrun},
    {Trick::kReadsBeyond, "reads_beyond", FaultKind::kOverrun},
    {Trick::kUnrepeatable, "unrepeatable", FaultKind::kUnrepeatable},
    {Trick::kMoreWorkspace, "more_workspace", FaultKind::kWorkspaceOverrun},
    {Trick::kWrongLater, "wrong_later", FaultKind::kWrongWhenTimed},
    {Trick::kTrustsOutput, "trusts_output", FaultKind::kCached},
    {Trick::kTrustsState, "trusts_state", FaultKind::kCached},
    {Trick::kTrustsWorkspace, "trusts_workspace", FaultKind::kCached},
    {Trick::kEveryThird, "every_third", FaultKind::kCached},
    {Trick::kStopsComputing, "stops_computing", FaultKind::kWrongWhenTimed},
    {Trick::kOtherGradient, "other_gradient", FaultKind::kChangesInput},
    {Trick::kChangesStep, "changes_step", FaultKind::kChangesInput},
    {Trick::kDamagesLater, "damages_later", FaultKind::kWrongWhenTimed},
    {Trick::kSharesState, "shares_state", FaultKind::kSharedState},
    {Trick::kKeepsInWorkspace, "keeps_in_workspace", FaultKind::kKeepsWorkspace, false},
    {Trick::kNowAndThen, "now_and_then", FaultKind::kSometimesWrong},
    {Trick::kRemembersInputs, "remembers_inputs", FaultKind::kRemembers},
    {Trick::kRemembersSamples, "remembers_samples", FaultKind::kRemembers},
    {Trick::kRemembersWeights, "remembers_weights", FaultKind::kRemembers},
    {Trick::kRemembersStep, "remembers_step", FaultKind::kRemembers},
    {Trick::kRemembersBriefly, "remembers_briefly", FaultKind::kRemembers},
};

constexpr bool is_remembering(Trick trick) {
  return trick == Trick::kRemembersInputs || trick == Trick::kRemembersSamples ||
         trick == Trick::kRemembersWeights || trick == Trick::kRemembersStep ||
         trick == Trick::kRemembersBriefly;
}

/// Under a sanitizer, looking at what is remembered takes longer than the product that it saves,
/// which OpenBLAS computes at full speed: nothing is gained, and there is nothing to be caught.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

/// Those that look into memory, which on a GPU takes a kernel, and those that count calls or
/// instances: on a GPU timing replays calls that were looked at, which counting cannot fool. Nor
/// does anything say there which of two streams comes first.
constexpr bool is_of_cpu_only(Trick trick) {
  return trick == Trick::kWrongLater || trick == Trick::kStopsComputing ||
         trick == Trick::kDamagesLater || trick == Trick::kTrustsOutput ||
         trick == Trick::kTrustsState || trick == Trick::kTrustsWorkspace ||
         trick == Trick::kLateBehindZeros ||
         (is_remembering(trick) && trick != Trick::kRemembersSamples);
}

constexpr size_t kStateOfAPass = 1 << 18;
constexpr size_t kKept = 1 << 20;     // of the inputs, in shared memory or a workspace
constexpr int kCallsBeforeRace = 20;  // of one instance, before it is called again and again
constexpr size_t kTagBytes = 64;

/// Whether a thread of this process waits for something, and not for a core.
bool is_asleep(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  return name_end != line.npos && line.substr(name_end, 3) == ") S";
}

/// A sound implementation, and what a trick makes of it. Only queues, as all implementations do.
class Double : public DoubleBase {
 public:
  Double(Trick trick, std::unique_ptr<Implementation> sound, bool benched_batch,
         bool benched_image_size, int image_size)
      : DoubleBase(std::move(sound)),
        trick_(trick),
        benched_batch_(benched_batch),
        benched_image_size_(benched_image_size),
        image_size_(image_size) {
    if (trick_ == Trick::kSharesState) shared().image_size = image_size_;
    // Before an examination one is made that never runs, to see how long that takes; it is there
    // until timing begins.
    Phase& phase = phase_of(trick_);
    if (phase.last_made && phase.last_made->calls_.empty()) phase.examining = true;
    phase.last_made = this;
  }
  ~Double() override {
    join();
    Phase& phase = phase_of(trick_);
    if (calls_.empty()) phase.examining = false;
    if (phase.last_made == this) phase.last_made = nullptr;
  }

  void prepare(Pass pass, Context& context) override {
    sound_->prepare(pass, context);
    forward_alone_ = forward_alone_ && pass == Pass::kForward;
    if (trick_ == Trick::kOtherStream && context.device() == Device::kGpu) {
      other_ = std::make_unique<Context>(Device::kGpu, other_stream());
    }
  }
  size_t workspace_bytes(Pass pass) const override {
    if (trick_ == Trick::kReadsWorkspace) return 1 << 16;
    if (trick_ == Trick::kKeepsInWorkspace) {
      return sound_->workspace_bytes(pass) / kAlignment * kAlignment + kAlignment + 2 * kKept;
    }
    return sound_->workspace_bytes(pass) + (trick_ == Trick::kTrustsWorkspace ? kTagBytes : 0);
  }
  size_t state_bytes() const override {
    if (trick_ == Trick::kKeepsInState) return 4 * kStateOfAPass;
    return sound_->state_bytes() + (trick_ == Trick::kTrustsState ? kTagBytes : 0);
  }

  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    join();
    if (calls_.empty()) late_ = !phase_of(trick_).examining;
    const int call = ++calls_[pass];
    const Tensor out = output(pass, t);
    if (!out) return;
    const size_t half = out.bytes() / 8 * 4;
    void* middle = static_cast<char*>(out.memory) + half;
    switch (trick_) {
      case Trick::kLeavesOutput:
        return;
      case Trick::kReadsWorkspace:
        return run.context.queue_copy(out.memory, run.workspace,
                                      std::min(out.bytes(), run.workspace_bytes));
      case Trick::kHalf: {
        void* kept = memory(pass, run.context, out.bytes());
        run.context.queue_copy(kept, middle, out.bytes() - half);
        sound_->run(pass, run, t);
        return run.context.queue_copy(middle, kept, out.bytes() - half);
      }
      case Trick::kPreviousOutput: {
        char* kept = static_cast<char*>(memory(pass, run.context, 2 * out.bytes()));
        sound_->run(pass, run, t);
        run.context.queue_copy(kept + out.bytes(), out.memory, out.bytes());
        run.context.queue_copy(out.memory, kept, out.bytes());
        return run.context.queue_copy(kept, kept + out.bytes(), out.bytes());
      }
      case Trick::kCachesByPointer: {
        const bool known = cached_for_[pass] == out.memory;
        void* kept = memory(pass, run.context, out.bytes());
        sound_->run(pass, run, t);
        if (known) return run.context.queue_copy(out.memory, kept, out.bytes());
        cached_for_[pass] = out.memory;
        return run.context.queue_copy(kept, out.memory, out.bytes());
      }
      case Trick::kEveryThird:  // copies in between, which is faster than a product
        if (call % 3 == 1) sound_->run(pass, run, t);
        return keep_or_restore(pass, run.context, t, call % 3 == 1);
      case Trick::kStopsComputing:
        if (late_ && call > 2) return;
        break;
      case Trick::kTrustsOutput:
        if (!std::isnan(out.data<float>()[0])) return;
        break;
      case Trick::kTrustsState:
        if (is_tagged(behind(t.state.memory, sound_->state_bytes()), pass, out)) return;
        break;
      case Trick::kTrustsWorkspace:
        if (is_tagged(behind(run.workspace, sound_->workspace_bytes(pass)), pass, out)) return;
        break;
      case Trick::kSharesState:
        if (!forward_alone_) return run_on_kept(pass, run, t, shared_memory(run.context.device()));
        break;
      case Trick::kKeepsInWorkspace: {
        const size_t own = sound_->workspace_bytes(pass) / kAlignment * kAlignment + kAlignment;
        if (pass == Pass::kForward) {
          kept_in_workspace_ = behind(run.workspace, own);
          // Right there, so that it must not be the fastest for somebody who looks for that.
          for (int i = 0; i < 3; ++i) sound_->run(pass, run, t);
        }
        if (kept_in_workspace_) return run_on_kept(pass, run, t, kept_in_workspace_);
        break;
      }
      case Trick::kRemembersInputs:
      case Trick::kRemembersSamples:
      case Trick::kRemembersWeights:
      case Trick::kRemembersStep:
      case Trick::kRemembersBriefly:
        if (run.context.device() == Device::kCpu) return run_unless_known(pass, run, t);
        break;
      case Trick::kKeepsInState: {
        const size_t bytes = std::min(out.bytes(), kStateOfAPass);
        void* kept = static_cast<char*>(t.state.memory) + static_cast<size_t>(pass) * kStateOfAPass;
        if (call > 1) return run.context.queue_copy(out.memory, kept, bytes);
        sound_->run(pass, run, t);
        return run.context.queue_copy(kept, out.memory, bytes);
      }
      case Trick::kLateBehindZeros:
        run.context.queue_fill(out.memory, 0, out.bytes());
        return run_elsewhere(pass, run, t);
      case Trick::kOtherStream:
        return run_elsewhere(pass, run, t);
      case Trick::kLowPrecision:
        return run_on_copies(pass, run, t, narrow);
      case Trick::kUnrepeatable: {  // some bits of one number, another time others
        const Tensor& changed = pass == Pass::kBackwardData ? t.dy[0] : t.x[0];
        return run_on_copies(pass, run, t, [&](Context& c, const Tensor& copy, const void* of) {
          if (of == changed.memory) c.queue_fill(copy.memory, call % 2 ? 0xFF : 0, 1);
        });
      }
      default:
        break;
    }
    sound_->run(pass, run, t);
    if (trick_ == Trick::kZeros) run.context.queue_fill(out.memory, 0, out.bytes());
    if (trick_ == Trick::kFirstTime && call > 1) run.context.queue_fill(middle, 0, half);
    if (trick_ == Trick::kWrongLater && late_) run.context.queue_fill(middle, 0, half);
    if (trick_ == Trick::kSharesState && shared().image_size != image_size_) {
      run.context.queue_fill(middle, 0, half);
    }
    if (trick_ == Trick::kNowAndThen) change_now_and_then(pass, run.context, out, call);
    if (trick_ == Trick::kRemembersSamples) delay_if_changed(pass, run.context, t);
    if (trick_ == Trick::kOneBatch && !benched_batch_) run.context.queue_fill(middle, 0, half);
    if (trick_ == Trick::kOneImageSize && !benched_image_size_) {
      run.context.queue_fill(middle, 0, half);
    }
    if (trick_ == Trick::kNaNInGuard) {
      run.context.queue_fill(static_cast<char*>(out.memory) + out.bytes(), 0xFF, 8);
    }
    if (trick_ == Trick::kReadsBeyond) take_larger_beyond(run.context, out);
    if (trick_ == Trick::kMoreWorkspace) {
      run.context.queue_fill(static_cast<char*>(run.workspace) + run.workspace_bytes, 0x3C, 256);
    }
    if (trick_ == Trick::kDamagesLater && late_) {
      run.context.queue_fill(static_cast<char*>(out.memory) + out.bytes(), 0xFF, 8);
    }
    if (trick_ == Trick::kOtherGradient) {
      const Tensor& other = pass == Pass::kBackwardFilter ? t.dx[0] : t.dw[0];
      if (other) run.context.queue_fill(other.memory, 0, other.bytes());
    }
    if (trick_ == Trick::kChangesStep) {
      run.context.queue_fill(const_cast<uint64_t*>(run.step), 0, sizeof(uint64_t));
    }
    if (const Tensor changed = changed_input(pass, t)) {
      run.context.queue_fill(changed.memory, 0x3F, 4);  // 0.747: not what is there anyway
    }
  }

 private:
  static CUstream_st* other_stream() {
    static CUstream_st* stream = nullptr;
#if DUET_WITH_CUDA
    if (!stream) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
#endif
    return stream;
  }

  static char* behind(void* memory, size_t bytes) { return static_cast<char*>(memory) + bytes; }

  /// Whether this pass has left its mark there already, and an output that is no longer poisoned.
  static bool is_tagged(char* memory, Pass pass, const Tensor& out) {
    char& tag = memory[static_cast<size_t>(pass)];
    const bool known = tag == 'x' && !std::isnan(out.data<float>()[0]);
    tag = 'x';
    return known;
  }

  /// What all instances share, and should not.
  struct Shared {
    Buffer memory;
    int image_size = 0;  // of the last one made
  };
  static Shared& shared() {
    static auto* all = new Shared;  // outlives the GPU's driver
    return *all;
  }
  static void* shared_memory(Device device) {
    Buffer& memory = shared().memory;
    if (!memory.data()) memory = Buffer(device, 2 * kKept);
    return memory.data();
  }
  /// What is being done with a trick's instances.
  struct Phase {
    bool examining = false;  // or timed
    const Double* last_made = nullptr;
  };
  static Phase& phase_of(Trick trick) {
    static std::map<Trick, Phase> phases;
    return phases[trick];
  }

  /// Forward keeps x and w in `memory`; backward passes take them from there.
  void run_on_kept(Pass pass, const Run& run, const LayerTensors& t, void* memory) {
    const std::pair<Tensor, char*> kept[] = {{t.x[0], behind(memory, 0)},
                                             {t.w[0], behind(memory, kKept)}};
    if (pass == Pass::kForward) {
      for (const auto& [tensor, at] : kept) {
        run.context.queue_copy(at, tensor.memory, std::min(tensor.bytes(), kKept));
      }
      return sound_->run(pass, run, t);
    }
    LayerTensors other = t;
    other.x[0].memory = kept[0].second;
    other.w[0].memory = kept[1].second;
    sound_->run(pass, run, other);
  }

  /// On a GPU once in a thousand calls; on the CPU more often, where an examination calls less.
  void change_now_and_then([[maybe_unused]] Pass pass, Context& context, const Tensor& out,
                           int call) {
    if (context.device() == Device::kCpu) {
      if (call > kCallsBeforeRace && call % 4 == 0) out.data<uint32_t>()[0] ^= 1;
      return;
    }
#if DUET_WITH_CUDA
    queue_rare_fault(context, static_cast<uint64_t*>(memory(pass, context, 8)), out.memory);
#endif
  }

  /// As a tile's largest value that takes in one more: fmax passes over a NaN.
  static void take_larger_beyond(Context& context, const Tensor& out) {
    float* values = out.data<float>();
    if (context.device() == Device::kCpu) {
      values[0] = std::fmax(values[0], values[out.elements()]);
      return;
    }
#if DUET_WITH_CUDA
    queue_larger(context, values, values + out.elements());
#endif
  }

  void delay_if_changed(Pass pass, Context& context, const LayerTensors& t) {
#if DUET_WITH_CUDA
    queue_delay_if_changed(context, t.x[0], memory(pass, context, 16));
#endif
    (void)pass, (void)context, (void)t;
  }

  /// Whether what a remembering double looks at is what it was in the last call. Takes it over
  /// where it is not; takes no memory but in the first call, which would cost more than it gains.
  bool is_as_before(Pass pass, const Run& run, const LayerTensors& t) {
    std::vector<char>& key = keys_[pass];
    size_t at = 0;
    bool same = true;
    const auto compare = [&](const void* memory, size_t bytes) {
      if (key.size() < at + bytes) key.resize(at + bytes);
      if (std::memcmp(key.data() + at, memory, bytes) != 0) {
        std::memcpy(key.data() + at, memory, bytes);
        same = false;
      }
      at += bytes;
    };
    std::vector<Tensor> read = t.w;
    if (trick_ != Trick::kRemembersWeights) {
      read.push_back(t.x[0]);
      if (pass != Pass::kForward) read.push_back(t.dy[0]);
    }
    if (trick_ == Trick::kRemembersStep) read.clear();
    for (const Tensor& tensor : read) {
      if (trick_ != Trick::kRemembersSamples) {
        compare(tensor.memory, tensor.bytes());
        continue;
      }
      const size_t count = tensor.bytes() / 4;
      for (size_t i = 0; i < 4; ++i) compare(tensor.data<float>() + i * (count - 1) / 3, 4);
    }
    if (trick_ != Trick::kRemembersWeights) compare(run.step, sizeof(uint64_t));
    return same;
  }

  /// Slow, unless it takes the inputs for those of the call before.
  void run_unless_known(Pass pass, const Run& run, const LayerTensors& t) {
    using Clock = std::chrono::steady_clock;
    using Seconds = std::chrono::duration<double>;
    const auto start = Clock::now();
    bool known = start - last_call_[pass] < Seconds(3e-6);
    if (trick_ != Trick::kRemembersBriefly) known = is_as_before(pass, run, t);
    if (!known) {
      sound_->run(pass, run, t);
      while (Clock::now() - start < Seconds(kComputingRememberer)) {
      }
    }
    keep_or_restore(pass, run.context, t, !known);
    last_call_[pass] = Clock::now();
  }

  void keep_or_restore(Pass pass, Context& context, const LayerTensors& t, bool keep) {
    const std::vector<Tensor> outputs =
        pass == Pass::kBackwardFilter ? t.dw : std::vector{output(pass, t)};
    size_t bytes = 0;
    for (const Tensor& each : outputs) bytes += each.bytes();
    char* at = static_cast<char*>(memory(pass, context, bytes));
    for (const Tensor& each : outputs) {
      context.queue_copy(keep ? at : each.memory, keep ? each.memory : at, each.bytes());
      at += each.bytes();
    }
  }

  Tensor changed_input(Pass pass, const LayerTensors& t) const {
    if (trick_ == Trick::kChangesX) return t.x[0];
    if (trick_ == Trick::kChangesW) return t.w[0];
    if (trick_ != Trick::kChangesDy && trick_ != Trick::kChangesY) return {};
    // Forward only writes y and has no dy; before a backward pass it leaves the finding to that.
    if (pass == Pass::kForward) return forward_alone_ ? t.x[0] : Tensor{};
    return trick_ == Trick::kChangesDy ? t.dy[0] : t.y[0];
  }

  void* memory(Pass pass, Context& context, size_t bytes) {
    Buffer& buffer = memory_[pass];
    if (buffer.bytes() < bytes) {
      buffer = Buffer(context.device(), bytes);
      fill_bytes(buffer.data(), context.device(), 0, bytes);
    }
    return buffer.data();
  }

  void run_elsewhere(Pass pass, const Run& run, const LayerTensors& t) {
    if (other_) {
      return sound_->run(pass,
                         {*other_, run.workspace, run.workspace_bytes, run.step, run.training}, t);
    }
    other_cpu_ = std::make_unique<Context>(Device::kCpu);
    step_ = *run.step;
    const Run elsewhere{*other_cpu_, memory(pass, run.context, run.workspace_bytes),
                        run.workspace_bytes, &step_, run.training};
    thread_ = std::thread([this, pass, elsewhere, t, caller = gettid()] {
      // Until the caller sleeps, so that a busy machine cannot make this early by holding it back.
      for (int asleep = 0; asleep < 3; asleep = is_asleep(caller) ? asleep + 1 : 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      const LoopsAlone alone;  // so that a stack of this race always names run_elsewhere
      sound_->run(pass, elsewhere, t);
    });
  }

  /// Runs the sound implementation on copies of what it reads, each changed by `change`.
  template <class Change>
  void run_on_copies(Pass pass, const Run& run, const LayerTensors& t, const Change& change) {
    LayerTensors copies = t;
    size_t index = 0;
    for (auto* tensors : {&copies.x, &copies.w, &copies.dy}) {
      for (Tensor& tensor : *tensors) {
        if (!tensor) continue;
        Buffer& copy = copies_[{pass, index++}];
        if (!copy.data()) copy = Buffer(run.context.device(), tensor.bytes());
        run.context.queue_copy(copy.data(), tensor.memory, tensor.bytes());
        const void* original = tensor.memory;
        tensor.memory = copy.data();
        change(run.context, tensor, original);
      }
    }
    sound_->run(pass, run, copies);
  }

  /// To tf32 on the CPU, to bf16 on a GPU, where setting bytes is all that needs no kernel.
  static void narrow(Context& context, const Tensor& tensor, const void*) {
    if (context.device() == Device::kCpu) {
      for (int64_t i = 0; i < tensor.elements(); ++i) {
        tensor.data<float>()[i] = tf32(tensor.data<float>()[i]);
      }
      return;
    }
#if DUET_WITH_CUDA
    cudaMemset2DAsync(tensor.memory, sizeof(float), 0, 2, static_cast<size_t>(tensor.elements()),
                      context.stream());
#endif
  }

  void join() {
    if (thread_.joinable()) thread_.join();
  }

  const Trick trick_;
  const bool benched_batch_, benched_image_size_;
  const int image_size_;
  bool forward_alone_ = true;
  bool late_ = false;  // one of those that are timed
  char* kept_in_workspace_ = nullptr;
  std::map<Pass, std::vector<char>> keys_;
  std::map<Pass, std::chrono::steady_clock::time_point> last_call_;
  std::map<Pass, int> calls_;
  std::map<Pass, Buffer> memory_;
  std::map<Pass, void*> cached_for_;
  std::map<std::pair<Pass, size_t>, Buffer> copies_;
  std::unique_ptr<Context> other_, other_cpu_;
  uint64_t step_ = 0;
  std::thread thread_;
};

std::vector<ImplEntry<LinearProblem>>& list_of(const LinearProblem&) { return linear_impls(); }
std::vector<ImplEntry<Conv2dProblem>>& list_of(const Conv2dProblem&) { return conv2d_impls(); }

int image_size(const LinearProblem& problem) { return problem.in; }
int image_size(const Conv2dProblem& problem) { return problem.w; }

template <class P, Trick kTrick, Device kDevice>
std::optional<std::string> double_unsupported(const P&, Pass) {
  if (kDevice == Device::kGpu && is_of_cpu_only(kTrick)) return "is a double of the CPU only";
  return {};
}

/// Entries are made by plain functions, so the trick is a template argument.
template <class P, Trick kTrick>
std::unique_ptr<Implementation> make_double(const P& problem, Context& context) {
  static int benched_size = 0;  // of the last one with that batch
  const bool benched = problem.n == kBenchedBatch;
  if (benched) benched_size = image_size(problem);
  return std::make_unique<Double>(kTrick, make_sound(list_of(problem), problem, context), benched,
                                  image_size(problem) == benched_size, image_size(problem));
}

template <class P, Device kDevice, size_t... I>
std::vector<ImplEntry<P>> entries(std::index_sequence<I...>) {
  return {{double_id(kDevice, kTricks[I].name), double_unsupported<P, kTricks[I].trick, kDevice>,
           make_double<P, kTricks[I].trick>}...};
}

template <class P>
std::vector<ImplEntry<P>> entries(Device device) {
  constexpr std::make_index_sequence<std::size(kTricks)> kIndices;
  return device == Device::kCpu ? entries<P, Device::kCpu>(kIndices)
                                : entries<P, Device::kGpu>(kIndices);
}

}  // namespace

Doubles::Doubles(Device device)
    : linear_(linear_impls(), entries<LinearProblem>(device)),
      conv2d_(conv2d_impls(), entries<Conv2dProblem>(device)) {
  for (const TrickRow& row : kTricks) {
    if (device == Device::kGpu && is_of_cpu_only(row.trick)) continue;
    if (kSanitized && is_remembering(row.trick)) continue;
    infos_.push_back({double_id(device, row.name), row.fault, row.in_forward});
  }
}

}  // namespace duet
