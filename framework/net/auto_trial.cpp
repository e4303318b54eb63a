#include "net/auto_trial.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/parallel.h"
#include "measure/examine/process_state.h"
#include "measure/time/measure_pass.h"

namespace duet {
namespace {

constexpr uint64_t kSeed = 1;
constexpr double kReferenceFlops = 1e8;  // about a second of one thread of cpu_reference in double
constexpr int64_t kFewestImages = 2;
constexpr double kFarSlowerFactor = 10, kCostlyMicroseconds = 2e3;
constexpr int kTries = 3;
constexpr TimingPlan kTiming = {.block_seconds = 0.002, .rounds = 3, .most_rounds = 3};
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

}  // namespace

AutoTrial::AutoTrial(const Layer& layer, const Passes& passes, const LayerSituation& situation,
                     Context& context)
    : layer_(layer),
      context_(context),
      smaller_(smaller(layer, passes)),
      data_{.situation = situation, .data = random_data(layer, kSeed)},
      check_data_(make_check_data(checked_layer(),
                                  smaller_ ? random_data(*smaller_, kSeed) : data_.data, situation,
                                  passes, InterruptGuard::requested)) {}

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
      limit = std::max(kFarSlowerFactor * microseconds, kCostlyMicroseconds);
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
        check(checked_layer(), candidate.id, pass, check_data_, context_);
    if (examination.passed()) continue;
    candidate.fault = std::string(to_string(pass)) + " " + examination.faults.front().text;
    candidate.microseconds = 0;  // no time for what is wrong
    return false;
  }
  right_.insert(&candidate);
  return true;
}

double AutoTrial::rough_microseconds(const Passes& passes, AutoCandidate& candidate) {
  const Layer& layer = checked_layer();
  const Pass last = passes.back();
  try {
    const CheckSet set(layer, last, check_data_.data, check_data_.expected, context_.device());
    LayerRig rig(layer, candidate.id, passes_through(layer, candidate.id, last), context_,
                 check_data_.situation);
    rig.load(set.data());
    run_through(rig, set);
    double sum = 0;
    for (Pass pass : passes) {
      sum += 1e6 * least_seconds_of(
                       context_, [&] { rig.queue(pass); }, kTries);
    }
    return sum;
  } catch (...) {
    candidate.fault = text_of_failure(candidate.id, context_.device());
    return kInfinity;
  }
}

void AutoTrial::time(const Passes& passes, const std::vector<AutoCandidate*>& candidates) {
  const PassPlan plan = {.timing = kTiming, .cold = false, .checks = false};
  for (Pass pass : passes) {
    std::vector<AutoCandidate*> left;
    std::vector<Candidate> timed;
    for (AutoCandidate* candidate : candidates) {
      if (!candidate->fault.empty()) continue;
      left.push_back(candidate);
      timed.push_back({&layer_, candidate->id});
    }
    if (timed.empty()) return;
    const auto results = measure_pass(timed, pass, data_, context_, plan);
    for (size_t i = 0; i < left.size(); ++i) {
      if (!results[i].warm) {
        left[i]->fault =
            std::string(to_string(pass)) + " " + results[i].examination.faults.front().text;
        left[i]->microseconds = 0;
      } else {
        // The least: on a busy machine others slow down some rounds, and none is ever faster.
        left[i]->microseconds += 1e6 * std::ranges::min(results[i].warm->seconds);
      }
    }
  }
}

}  // namespace duet
