// What an implementation keeps where it does not belong: in memory that instances share, or in a
// workspace after its pass.
#include <algorithm>

#include "core/interrupt.h"
#include "core/running.h"
#include "measure/check/classify.h"
#include "measure/examine/examine_checks.h"

namespace duet {
namespace {

/// `rig` runs the subject's pass and those before it; `before` and `after` are called around each.
template <class Before, class After>
void run_with(const ExamineSubject& subject, LayerRig& rig, const Before& before,
              const After& after) {
  const auto passes = passes_through(subject.layer, subject.id, subject.pass);
  if (passes.front() != Pass::kForward) rig.set_y(subject.sets.first.y());
  for (Pass each : passes) {
    run_interruptibly([&] {
      before(each);
      rig.run(each);
      after(each);
    });
  }
}

void do_nothing(Pass) {}

/// Instances beside the subject's lie between bands or, on the CPU, at protected pages.
Guards guards_at(Side side) { return {GuardedBuffer::kWideGuardBytes, side}; }

std::optional<Fault> fault_of_damage(const LayerRig& rig, const std::string& problem) {
  const std::string damage = rig.damage();
  if (damage.empty()) return {};
  return Fault{FaultKind::kOverrun,
               "touches memory outside its buffers on " + problem + ":\n" + damage};
}

/// What is wrong in the outputs, or an empty string.
std::string finding(LayerRig& rig, const CheckSet& set) {
  const auto tensors = hold_to(set, rig);
  if (all_agree(tensors)) return "";
  return classify(tensors, rig.outputs(set.pass()), set.outputs()).text;
}

std::optional<Fault> find_kept_workspace(const ExamineSubject& subject, LayerRig& rig) {
  rig.load(subject.sets.first.data());
  run_with(subject, rig, do_nothing, [&](Pass) { rig.poison_workspaces(); });
  const std::string wrong = finding(rig, subject.sets.first);
  if (wrong.empty()) return {};
  return Fault{FaultKind::kKeepsWorkspace,
               "keeps something in the workspace of an earlier pass, which other layers overwrite "
               "in a network; what a later pass needs belongs into the state. With the workspace "
               "overwritten between its passes it " +
                   wrong};
}

/// A second instance of the same size, on other data.
std::optional<Fault> find_state_of_twins(const ExamineSubject& subject, LayerRig& rig) {
  const CheckSets& sets = subject.sets;
  const auto passes = passes_through(subject.layer, subject.id, subject.pass);
  LayerRig other(subject.layer, subject.id, passes, subject.context, subject.check_data.situation,
                 guards_at(Side::kAfter));
  rig.load(sets.first.data());
  other.load(sets.other->data());
  if (passes.front() != Pass::kForward) other.set_y(sets.other->y());
  run_with(subject, rig, do_nothing, [&](Pass each) { other.run(each); });
  std::string wrong = finding(other, *sets.other);
  if (wrong.empty()) wrong = finding(rig, sets.first);
  if (wrong.empty()) {  // once more behind the other
    rig.queue_poison(subject.pass);
    rig.run(subject.pass);
    wrong = finding(rig, sets.first);
  }
  if (wrong.empty()) return fault_of_damage(other, subject.layer.problem_text());
  return Fault{FaultKind::kSharedState,
               "shares state with other instances (static memory, a global, __constant__ memory): "
               "where the passes of two instances on different data take turns, it " +
                   wrong};
}

/// Another instance, of another size.
std::optional<Fault> find_state_of_neighbours(const ExamineSubject& subject, LayerRig& rig) {
  const CheckData& check_data = subject.check_data;
  const auto passes = passes_through(subject.layer, subject.id, subject.pass);
  for (const auto& neighbour : subject.neighbours) {
    rig.load(subject.sets.first.data());
    const RunningPlace place("beside an instance for the neighbouring problem " +
                             neighbour->problem_text());
    LayerRig other(*neighbour, subject.id, passes, subject.context, check_data.situation,
                   guards_at(Side::kBefore));
    other.load(
        check_data.neighbours
            ->of(*neighbour, NeighbourReferences::Kind::kRandom, check_data.situation, subject.pass)
            .data);
    run_with(
        subject, rig, [&](Pass each) { other.run(each); }, do_nothing);
    if (auto fault = fault_of_damage(other, neighbour->problem_text())) return fault;
    const std::string wrong = finding(rig, subject.sets.first);
    if (wrong.empty()) continue;
    return Fault{FaultKind::kSharedState,
                 "shares its sizes with other instances (static memory, a global, __constant__ "
                 "memory): where an instance for " +
                     neighbour->problem_text() + " was made meanwhile, it " + wrong};
  }
  return {};
}

}  // namespace

std::optional<Fault> find_shared_state(const ExamineSubject& subject, LayerRig& rig) {
  if (auto fault = find_state_of_neighbours(subject, rig)) return fault;
  if (auto fault = find_state_of_twins(subject, rig)) return fault;
  return find_kept_workspace(subject, rig);
}

}  // namespace duet
