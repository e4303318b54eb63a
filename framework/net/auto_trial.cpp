#include "net/auto_trial.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/parallel.h"
#include "device/graph_time.h"
#include "measure/timing.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kReferenceFlops = 1e8;  // about a second of one thread of cpu_reference in double
constexpr int64_t kFewestImages = 2;
constexpr double kFarSlower = 10, kCostlyMicroseconds = 2e3;
constexpr double kCpuBlockSeconds = 0.005;
constexpr int kSweeps = 3;
constexpr double kHopeless = 3;  // times the best: not worth an exact time
constexpr double kInfinity = std::numeric_limits<double>::infinity();

double flops_of(const Layer& layer, const std::vector<Pass>& passes) {
  double flops = 0;
  for (Pass pass : passes) {
    flops += std::max(layer.flops(pass), 4.0 * static_cast<double>(layer.inputs()[0].elements()));
  }
  return flops;
}

// The layer with as many images as the reference can do; nothing if that is all, or if fewer are
// not for everybody who can do all.
std::unique_ptr<Layer> smaller(const Layer& layer, const std::vector<Pass>& passes) {
  std::vector<TensorDesc> inputs = layer.inputs();
  const int64_t all = inputs[0].shape[0];
  const double an_image = flops_of(layer, passes) / static_cast<double>(all);
  const double most = kReferenceFlops * cpu_threads() / an_image;
  const auto images = std::max(kFewestImages, static_cast<int64_t>(std::min(most, 1e9)));
  if (images >= all) return nullptr;
  for (TensorDesc& x : inputs) x.shape = x.shape.with(0, images);
  auto copy = layer.clone();
  try {
    copy->bind(inputs, layer.options());
  } catch (const ShapeError&) {
    return nullptr;
  }
  for (const ImplInfo& info : layer.implementations()) {
    for (Pass pass : passes) {
      if (copy->unsupported(info.id, pass) && !layer.unsupported(info.id, pass)) return nullptr;
    }
  }
  return copy;
}

// A rig in which each of `passes`, which are in order, can run again and again.
std::unique_ptr<LayerRig> ready_rig(const Layer& layer, const std::string& id,
                                    const std::vector<Pass>& passes, const LayerData& data,
                                    const LayerSituation& situation, Context& context) {
  const std::vector<Pass> chain = passes_through(layer, id, passes.back());
  auto rig = std::make_unique<LayerRig>(layer, id, chain, context, situation);
  rig->load(data);
  if (chain.front() != Pass::kForward) {
    std::vector<NamedValues> y;  // of an implementation without a forward pass; any numbers will do
    for (size_t i = 0; i < layer.outputs().size(); ++i) {
      const TensorDesc& desc = layer.outputs()[i];
      y.push_back(
          {.name = "y",
           .desc = desc,
           .values = data.dy[i].empty() ? std::vector<double>(desc.elements()) : data.dy[i]});
    }
    rig->set_y(y);
  }
  for (Pass each : chain) rig->run(each);
  return rig;
}

// `rig` has run `pass` last.
double microseconds_of(LayerRig& rig, Pass pass, double hopeless) {
  Context& context = rig.context();
  rig.queue_poison(pass);  // what is there afterwards was written while it was timed
  const auto queue = [&] { rig.queue(pass); };
  if (context.device() == Device::kGpu) return microseconds_in_graph(context, queue, hopeless);
  int64_t calls = 1;
  for (;;) {
    const double seconds = seconds_of(context, queue, calls);
    const double microseconds = 1e6 * seconds / static_cast<double>(calls);
    if (seconds >= kCpuBlockSeconds || microseconds > hopeless) return microseconds;
    calls *= 2;
  }
}

// True if `pass` still writes what it wrote `before`, within the limit of its arithmetic, and has
// damaged nothing.
bool same(LayerRig& rig, Pass pass, const std::vector<NamedValues>& before) {
  rig.queue_poison(pass);
  rig.queue(pass);
  rig.context().synchronize();
  if (!rig.damage().empty()) return false;
  const auto after = rig.outputs(pass);
  for (size_t i = 0; i < after.size(); ++i) {
    const Limit limit =
        limit_of(rig.layer(), pass, after[i].desc, after[i].parameter, rig.layer().options().math);
    if (!compare(before[i].values, after[i].values, limit).agrees) return false;
  }
  return true;
}

// REQUIRES: `error` is being handled. Nobody's fault is an interrupt, which goes on.
std::string failure(const Error& error) {
  if (dynamic_cast<const InterruptedError*>(&error)) throw;
  return std::string("failed: ") + error.what();
}

}  // namespace

AutoTrial::AutoTrial(const Layer& layer, const Passes& passes, const LayerSituation& situation,
                     Context& context)
    : layer_(layer),
      context_(context),
      smaller_(smaller(layer, passes)),
      data_(random_data(layer, kSeed)),
      check_data_(make_check_data(checked_layer(), smaller_ ? random_data(*smaller_, kSeed) : data_,
                                  situation, passes, InterruptGuard::requested)) {}

void AutoTrial::run(const Passes& passes, std::vector<AutoCandidate>& candidates) {
  right_.clear();
  while (!find_fastest(passes, candidates)) {
    // Who was slower than one that turned out wrong gets another chance.
    bool any = false;
    for (AutoCandidate& candidate : candidates) {
      candidate.far_slower = false;
      candidate.microseconds = 0;
      any |= candidate.fault.empty();
    }
    if (!any) return;
  }
}

bool AutoTrial::find_fastest(const Passes& passes, std::vector<AutoCandidate>& candidates) {
  // Roughly first, on few images: what is far slower than one that is right could take minutes.
  std::vector<std::pair<double, AutoCandidate*>> order;
  for (AutoCandidate& candidate : candidates) {
    if (candidate.fault.empty()) {
      order.emplace_back(rough_microseconds(passes, candidate), &candidate);
    }
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  double limit = kInfinity;
  std::vector<AutoCandidate*> left;
  for (const auto& [microseconds, candidate] : order) {
    if (!candidate->fault.empty()) continue;
    if (limit == kInfinity) {
      if (!is_right(passes, *candidate)) continue;
      limit = std::max(kFarSlower * microseconds, kCostlyMicroseconds);
    }
    candidate->far_slower = microseconds > limit;
    if (!candidate->far_slower) left.push_back(candidate);
  }

  time(passes, left);
  std::stable_sort(left.begin(), left.end(),
                   [](const auto* a, const auto* b) { return a->microseconds < b->microseconds; });
  // Beside one that turns out wrong, and may have been faster, others may have no exact time.
  bool misled = false;
  for (AutoCandidate* candidate : left) {
    if (candidate->fault.empty() && is_right(passes, *candidate)) return !misled;
    misled = true;
  }
  return false;
}

bool AutoTrial::is_right(const Passes& passes, AutoCandidate& candidate) {
  if (right_.count(&candidate)) return true;
  for (Pass pass : passes) {
    const Examination examination =
        examine(checked_layer(), candidate.id, pass, check_data_, context_);
    if (examination.passed()) continue;
    candidate.fault = std::string(to_string(pass)) + " " + examination.faults.front().text;
    if (examination.faults.front().kind == FaultKind::kFailed) expect_device(candidate);
    candidate.microseconds = 0;  // no time for what is wrong
    return false;
  }
  right_.insert(&candidate);
  return true;
}

double AutoTrial::rough_microseconds(const Passes& passes, AutoCandidate& candidate) {
  try {
    const auto rig = ready_rig(checked_layer(), candidate.id, passes, check_data_.data,
                               check_data_.situation, context_);
    double sum = 0;
    for (Pass pass : passes) {
      double best = kInfinity;
      rig->run(pass);
      for (int i = 0; i < kSweeps && (i == 0 || best < kCpuBlockSeconds); ++i) {
        best = std::min(best, seconds_of(
                                  context_, [&] { rig->queue(pass); }, 1));
      }
      sum += 1e6 * best;
    }
    return sum;
  } catch (const Error& e) {
    candidate.fault = failure(e);
    expect_device(candidate);
    return kInfinity;
  }
}

// A kernel that reads or writes outside memory ends everything that this process does on the GPU:
// what others would be blamed for is told of it.
void AutoTrial::expect_device(const AutoCandidate& candidate) {
  try {
    context_.synchronize();
  } catch (const Error&) {
    throw DeviceError("backend 'auto': " + candidate.id + " of " + std::string(layer_.type()) +
                      " (" + layer_.problem_text() + ") left the GPU unusable; it " +
                      candidate.fault + "; name another implementation for this layer");
  }
}

// The median of some sweeps over all candidates, back and forth, so that a clock that rises or
// falls meanwhile does so for all alike.
void AutoTrial::time(const Passes& passes, const std::vector<AutoCandidate*>& candidates) {
  struct Runner {
    AutoCandidate* candidate;
    std::unique_ptr<LayerRig> rig;
    std::vector<double> times = {};
    std::vector<NamedValues> before = {};  // what the pass gave before it was timed
  };
  std::vector<Runner> runners;
  for (AutoCandidate* candidate : candidates) {
    try {
      runners.push_back({candidate, ready_rig(layer_, candidate->id, passes, data_,
                                              check_data_.situation, context_)});
    } catch (const Error& e) {  // more memory than there is, for instance
      candidate->fault = failure(e);
      expect_device(*candidate);
    }
  }
  for (Pass pass : passes) {
    for (Runner& runner : runners) {
      runner.rig->queue_poison(pass);  // and buffers as loaded, for same()
      runner.rig->run(pass);
      runner.before = runner.rig->outputs(pass);
    }
    double best = kInfinity;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      for (Runner& runner : runners) {
        runner.times.push_back(microseconds_of(*runner.rig, pass, kHopeless * best));
        best = std::min(best, runner.times.back());
      }
      std::reverse(runners.begin(), runners.end());
    }
    for (Runner& runner : runners) {
      if (!same(*runner.rig, pass, runner.before)) {
        runner.candidate->fault = std::string(to_string(pass)) +
                                  " damaged memory while it was timed, or gave another result "
                                  "afterwards than before";
      }
      // The least: on a busy machine others slow down some sweeps, and none is ever faster.
      runner.candidate->microseconds += std::ranges::min(runner.times);
      runner.times.clear();
    }
  }
  for (Runner& runner : runners) {
    if (!runner.candidate->fault.empty()) runner.candidate->microseconds = 0;
  }
}

}  // namespace duet
