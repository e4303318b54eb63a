// Whether an implementation is right on problems beside the one asked for.
#include <algorithm>

#include "core/interrupt.h"
#include "core/running.h"
#include "measure/classify.h"
#include "measure/examine_checks.h"
#include "measure/hard_data.h"

namespace duet {

// Small, because the reference is slow: a larger batch only as far as that takes it little time.
std::vector<std::unique_ptr<Layer>> neighbours(const Layer& layer) {
  std::vector<std::unique_ptr<Layer>> all;
  const auto add = [&](auto&& change) {
    std::vector<TensorDesc> inputs = layer.inputs();
    for (TensorDesc& input : inputs) input.shape = change(input.shape);
    auto copy = layer.clone();
    try {
      copy->bind(inputs, layer.options());
    } catch (const ShapeError&) {
      return;
    }
    all.push_back(std::move(copy));
  };
  add([](const Shape& s) { return s.with(0, s[0] == 3 ? 2 : 3); });
  constexpr double kLittle = 1e8;
  const int64_t batch = layer.inputs()[0].shape[0];
  const double an_image = std::max(layer.flops(Pass::kForward),
                                   4.0 * static_cast<double>(layer.inputs()[0].elements())) /
                          static_cast<double>(batch);
  const auto most = static_cast<int64_t>(std::min(kLittle / an_image, 1e6));
  if (const int64_t other = most >= batch ? batch + 1 : most; other > 3) {
    add([&](const Shape& s) { return s.with(0, other); });
  }
  add([](const Shape& s) {
    Shape larger = s.with(0, 2);
    if (s.rank() == 4) larger = larger.with(2, s[2] + 1).with(3, s[3] + 2);
    if (s.rank() == 2) larger = larger.with(1, s[1] + 3);
    return larger;
  });
  return all;
}

std::vector<Pass> passes_of_neighbour(const ExamineSubject& subject, const Layer& neighbour) {
  const auto passes = passes_through(subject.layer, subject.id, subject.pass);
  const bool can = std::none_of(passes.begin(), passes.end(), [&](Pass pass) {
    return neighbour.unsupported(subject.id, pass).has_value();
  });
  return can ? passes : std::vector<Pass>{};
}

const NeighbourReferences::Entry& NeighbourReferences::of(const Layer& neighbour, Kind kind,
                                                          const LayerSituation& situation,
                                                          Pass pass) {
  const std::string name = neighbour.problem_text() + " " + std::string(to_string(pass)) + " " +
                           std::to_string(static_cast<int>(kind));
  const auto known = entries_.find(name);
  if (known != entries_.end()) return known->second;
  LayerData data = kind == Kind::kRandom ? random_data(neighbour, 7)
                                         : hard_data(neighbour, kind == Kind::kHard, 11);
  neighbour.settle(data.x, data.w, data.dy);
  Reference expected = run_reference(neighbour, data, situation, {pass}, InterruptGuard::requested);
  return entries_.insert({name, {std::move(data), std::move(expected)}}).first->second;
}

namespace {

using Kind = NeighbourReferences::Kind;

/// What is wrong with the pass on data of that kind for `layer`, or an empty string.
std::string finding(const ExamineSubject& subject, const Layer& layer, Kind kind) {
  const Pass pass = subject.pass;
  const auto passes = passes_of_neighbour(subject, layer);
  if (passes.empty()) return "";
  const LayerSituation& situation = subject.check_data.situation;
  const auto& [data, expected] = subject.check_data.neighbours->of(layer, kind, situation, pass);
  const CheckSet set(layer, pass, data, expected, subject.context.device());
  const RunningPlace place("on the neighbouring problem " + layer.problem_text());
  LayerRig rig(layer, subject.id, passes, subject.context, situation,
               GuardedBuffer::kWideGuardBytes);
  rig.load(set.data());
  run_through(rig, set);
  const auto tensors = hold_to(set, rig);
  if (!all_agree(tensors)) return classify(tensors, rig.outputs(pass), set.outputs()).text;
  const std::string damage = rig.damage();
  return damage.empty() ? "" : "damages memory:\n" + damage;
}

}  // namespace

std::optional<Fault> find_shape_bound(const ExamineSubject& subject) {
  for (const auto& neighbour : neighbours(subject.layer)) {
    const std::string wrong = finding(subject, *neighbour, Kind::kRandom);
    if (wrong.empty()) continue;
    return Fault{FaultKind::kShapeBound, "is right on the shape asked for only: on " +
                                             neighbour->problem_text() + " it " + wrong};
  }
  return {};
}

std::optional<Fault> find_data_bound(const ExamineSubject& subject) {
  const auto all = neighbours(subject.layer);
  if (all.empty()) return {};
  const Layer& small = *all.front();
  // What a NaN becomes in backward is not agreed on, nor what sums of products make of it where
  // they transform their inputs first (Winograd).
  const bool plain = small.parameters().empty();
  const bool also_non_finite = plain && subject.pass == Pass::kForward;
  for (const bool finite : {true, false}) {
    if (!finite && !also_non_finite) continue;
    const std::string wrong = finding(subject, small, finite ? Kind::kHard : Kind::kNotFinite);
    if (wrong.empty()) continue;
    return Fault{FaultKind::kDataBound,
                 std::string("is right on ordinary data only: with ties, zeros of both signs, "
                             "values of 1e-20 and ") +
                     (plain ? "1e4" : "channels of 1e-6") + (finite ? "" : ", NaN and infinities") +
                     ", on " + small.problem_text() + ", it " + wrong};
  }
  return {};
}

}  // namespace duet
