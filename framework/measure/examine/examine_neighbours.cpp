// Whether an implementation is right on problems beside the one asked for.
#include <algorithm>

#include "core/interrupt.h"
#include "core/running.h"
#include "measure/check/classify.h"
#include "measure/examine/examine_checks.h"
#include "measure/examine/hard_data.h"

namespace duet {

namespace {

constexpr size_t kNeighbours = 3;

/// The number of options of `layer` that can be changed (Layer::change_option), and one more: the
/// channels of its input.
size_t change_count(const Layer& layer) {
  const auto copy = layer.clone();
  size_t count = 0;
  while (copy->change_option(count)) ++count;
  return count + 1;
}

// Small, because the reference is slow: a larger batch only as far as that takes it little time.
int64_t batch_of(const Layer& layer, size_t which) {
  constexpr double kLittle = 1e8;
  const int64_t batch = layer.inputs()[0].shape[0];
  const double flops = layer.flops(Pass::kForward);
  const double an_image = std::max(flops, 4.0 * static_cast<double>(layer.inputs()[0].elements())) /
                          static_cast<double>(batch);
  const auto most = static_cast<int64_t>(std::min(kLittle / an_image, 1e6));
  if (which == 0) return batch == 1 ? 3 : 1;
  if (which == 1) return std::max<int64_t>(most >= batch ? batch + 1 : most, batch == 3 ? 2 : 3);
  return flops > 0 ? 2 : kHardRows;
}

/// Neighbour `which` of `layer` with the options in `changes` changed; none if there is no such.
std::unique_ptr<Layer> neighbour(const Layer& layer, size_t which,
                                 const std::vector<size_t>& changes) {
  auto copy = layer.clone();
  const size_t channels = change_count(layer) - 1;
  bool wider = false;
  for (size_t change : changes) {
    wider |= change == channels;
    if (change != channels) copy->change_option(change);
  }
  // As many more as one divides into groups.
  const Shape& image = layer.inputs()[0].shape;
  const ParameterSpec* weight = weight_of(layer);
  const bool grouped = weight && weight->desc.shape.rank() == 4;
  const int64_t more = grouped ? image[1] / weight->desc.shape[1] : 3;
  std::vector<TensorDesc> inputs = layer.inputs();
  for (TensorDesc& input : inputs) {
    Shape& s = input.shape;
    s = s.with(0, batch_of(layer, which));
    if (wider && is_float(input.dtype) && s.rank() > 1) s = s.with(1, s[1] + more);
    if (which == kNeighbours - 1 && s.rank() == 4) s = s.with(2, s[2] + 1).with(3, s[3] + 2);
  }
  try {
    copy->bind(inputs, layer.options());
  } catch (const ShapeError&) {
    return nullptr;
  }
  return copy->untrainable() ? nullptr : std::move(copy);
}

/// Neighbours that `suits`. Between them every option is changed once: a third of the options in
/// each, and what does not suit one is tried in the next.
template <class Suits>
std::vector<std::unique_ptr<Layer>> neighbours_that(const Layer& layer, const Suits& suits) {
  std::vector<std::unique_ptr<Layer>> all;
  const size_t count = change_count(layer);
  std::vector<size_t> left;
  const auto make = [&](size_t which, const std::vector<size_t>& changes) {
    auto made = neighbour(layer, which, changes);
    return made && suits(*made) ? std::move(made) : nullptr;
  };
  for (size_t which = 0; which < kNeighbours; ++which) {
    std::vector<size_t> wanted = std::move(left);
    left.clear();
    for (size_t i = which; i < count; i += kNeighbours) wanted.push_back(i);
    auto made = make(which, wanted);  // at once: kernels of a file are compiled to be asked
    if (!made) {
      made = make(which, {});
      std::vector<size_t> changes;
      for (size_t change : wanted) {
        changes.push_back(change);
        if (auto next = make(which, changes)) {
          made = std::move(next);
        } else {
          changes.pop_back();
          left.push_back(change);
        }
      }
    }
    if (made) all.push_back(std::move(made));
  }
  return all;
}

}  // namespace

std::vector<std::unique_ptr<Layer>> neighbours(const Layer& layer) {
  return neighbours_that(layer, [](const Layer&) { return true; });
}

std::vector<std::unique_ptr<Layer>> supported_neighbours(const Layer& layer, std::string_view id,
                                                         Pass pass) {
  const auto passes = passes_through(layer, id, pass);
  return neighbours_that(layer, [&](const Layer& neighbour) {
    return std::none_of(passes.begin(), passes.end(),
                        [&](Pass each) { return neighbour.unsupported(id, each).has_value(); });
  });
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

/// The subject's implementation on data of that kind for a neighbour.
class OnNeighbour {
 public:
  OnNeighbour(const ExamineSubject& subject, const Layer& layer, Kind kind)
      : place_("on the neighbouring problem " + layer.problem_text()),
        entry_(subject.check_data.neighbours->of(layer, kind, subject.check_data.situation,
                                                 subject.pass)),
        set_(layer, subject.pass, entry_.data, entry_.expected, subject.context.device()),
        rig_(layer, subject.id, passes_through(subject.layer, subject.id, subject.pass),
             subject.context, subject.check_data.situation, kWideGuards) {}

  /// What is wrong, or an empty string.
  std::string finding() {
    const std::string wrong = wrong_values();
    if (!wrong.empty()) return wrong;
    const std::string damage = rig_.damage();
    return damage.empty() ? "" : "damages memory:\n" + damage;
  }
  /// The same with large numbers around all buffers. REQUIRES: nothing is wrong among NaNs.
  std::string finding_among_large_numbers() {
    rig_.surround(GuardedBuffer::Band::kLarge);
    return finding();
  }

 private:
  std::string wrong_values() {
    const RunningPlace place(place_);
    rig_.load(set_.data());
    run_through(rig_, set_);
    const auto tensors = hold_to(set_, rig_);
    if (all_agree(tensors)) return "";
    return classify(tensors, rig_.outputs(set_.pass()), set_.outputs()).text;
  }

  const std::string place_;
  const NeighbourReferences::Entry& entry_;
  const CheckSet set_;
  LayerRig rig_;
};

bool is_larger_batch(const ExamineSubject& subject, const Layer& neighbour) {
  const int64_t asked_for = subject.layer.inputs()[0].shape[0];
  return neighbour.inputs()[0].shape[0] > std::max(asked_for, kHardRows);
}

}  // namespace

std::optional<Fault> find_shape_bound(const ExamineSubject& subject) {
  for (const auto& neighbour : subject.neighbours) {
    OnNeighbour on(subject, *neighbour, Kind::kRandom);
    const std::string problem = neighbour->problem_text();
    if (const std::string wrong = on.finding(); !wrong.empty()) {
      return Fault{FaultKind::kShapeBound,
                   "is right on the problem asked for only: on " + problem + " it " + wrong};
    }
    if (is_larger_batch(subject, *neighbour)) continue;  // its calls take as long as the subject's
    if (const std::string wrong = on.finding_among_large_numbers(); !wrong.empty()) {
      return Fault{FaultKind::kOverrun,
                   "reads outside its buffers: on " + problem +
                       ", with large numbers around them in place of NaNs, it " + wrong};
    }
  }
  return {};
}

std::optional<Fault> find_data_bound(const ExamineSubject& subject) {
  if (subject.neighbours.empty()) return {};
  const Layer& small = *subject.neighbours.back();
  // What a NaN becomes in backward is not agreed on, nor what sums of products make of it where
  // they transform their inputs first (Winograd).
  const bool plain = small.parameters().empty();
  const bool also_non_finite = plain && subject.pass == Pass::kForward;
  for (const bool finite : {true, false}) {
    if (!finite && !also_non_finite) continue;
    const Kind kind = finite ? Kind::kHard : Kind::kNotFinite;
    const std::string wrong = OnNeighbour(subject, small, kind).finding();
    if (wrong.empty()) continue;
    return Fault{FaultKind::kDataBound,
                 std::string("is right on ordinary data only: with ties, zeros of both signs, "
                             "values of 1e-40 and 1e-20, ") +
                     (weight_of(small) ? "channels of 1e-6"
                                       : "rows of very different levels (-20 to -1000, 10 to 1000, "
                                         "4000 and a little)") +
                     (finite ? "" : ", NaN and infinities") + ", on " + small.problem_text() +
                     ", it " + wrong};
  }
  return {};
}

}  // namespace duet
