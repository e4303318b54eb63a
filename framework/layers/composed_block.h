// Blocks that run the layers they stand for one after the other, by implementations out of those
// layers' own lists. This is what a fused kernel is measured against.
#pragma once

#include <algorithm>

#include "core/arena.h"
#include "layers/layer.h"

namespace duet {

/// REQUIRES: it is in the list.
template <class P>
const ImplEntry<P>& entry_of(const std::vector<ImplEntry<P>>& list, std::string_view id) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.id == id; });
  if (found == list.end()) throw std::logic_error("no part '" + std::string(id) + "'");
  return *found;
}

/// Why `list`'s implementation `id` cannot be the part `layer`, or nothing.
template <class P>
std::optional<std::string> part_unsupported(std::string_view layer,
                                            const std::vector<ImplEntry<P>>& list,
                                            std::string_view id, const P& problem, Pass pass) {
  auto reason = entry_of(list, id).unsupported(problem, pass);
  if (reason) reason->insert(0, std::string(layer) + ": ");
  return reason;
}

/// True of "custom_composed", which keeps another state than the fused kernels of its family.
inline bool is_composed(std::string_view id) { return id.ends_with("_composed"); }

/// Where an entry of `list` can run every pass of `problem`, as a layer by itself would have it run: the
/// first of `family` that is preferred in all, or else the first at all. nullptr where there is none.
template <class P>
const ImplEntry<P>* choice_of(const std::vector<ImplEntry<P>>& list, Family family,
                              const P& problem, const std::vector<Pass>& passes,
                              size_t workspace_limit) {
  const auto in_all = [&](auto&& holds) {
    return std::all_of(passes.begin(), passes.end(), holds);
  };
  const ImplEntry<P>* first = nullptr;
  for (const ImplEntry<P>& entry : list) {
    if (family_of(entry.id) != family || unstored(problem.dtype, entry.dtypes)) continue;
    if (!in_all([&](Pass pass) { return !entry.unsupported(problem, pass); })) continue;
    if (!first) first = &entry;
    const auto is_preferred = [&](Pass pass) {
      return entry.preferred && entry.preferred(problem, pass, workspace_limit);
    };
    if (in_all(is_preferred)) return &entry;
  }
  return first;
}

/// The first part has the parameters. Where it has three passes, its backward_filter comes behind the
/// backward passes of the others, and backward_data finds their gradient made.
///
///   state      the values between the parts, their gradients, and what the parts keep themselves
class ComposedBlock : public Implementation {
 public:
  /// Parts are added in the order of forward; `x` is what this one reads.
  template <class P>
  void add(std::string_view layer, const std::vector<ImplEntry<P>>& list, std::string_view id,
           const P& problem, const TensorDesc& x, Context& context) {
    add(layer, id, entry_of(list, id).make(problem, context), x);
  }
  void add(std::string_view layer, std::string_view id, std::unique_ptr<Implementation> part,
           const TensorDesc& x);

  void prepare(Pass pass, Context& context) override;
  size_t workspace_bytes(Pass pass) const override;
  size_t state_bytes() const override { return state_.bytes(); }
  std::string detail(Pass pass) const override;
  std::vector<std::string> calls(Pass pass) const override;
  void run(Pass pass, const Run& run, const LayerTensors& t) override;

 private:
  struct Part {
    std::string_view layer, id;
    std::unique_ptr<Implementation> implementation;
    TensorDesc x;
    size_t state = 0, value = 0, gradient = 0;  // offsets in the state; the last two of x
    /// With room, so that nothing is allocated in a run.
    LayerTensors tensors = {.x = std::vector<Tensor>(1),
                            .y = std::vector<Tensor>(1),
                            .dx = std::vector<Tensor>(1),
                            .dy = std::vector<Tensor>(1),
                            .w = std::vector<Tensor>(4),
                            .dw = std::vector<Tensor>(4)};
  };

  /// The parts that `pass` runs, the first ones.
  size_t count(Pass pass) const { return pass == Pass::kBackwardData ? 1 : parts_.size(); }
  /// What part number `i` runs in `pass`.
  static Pass pass_of(size_t i, Pass pass) {
    return i == 0 || pass == Pass::kForward ? pass : Pass::kBackward;
  }

  std::vector<Part> parts_;
  ArenaPlan state_;
};

}  // namespace duet
