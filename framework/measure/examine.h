// Whether an implementation is correct: agreement with the reference, and checks for the ways in
// which a kernel that looks right is not.
//
// The reference is cpu_reference in double on the same numbers. An implementation must agree with
// it on two sets of data in the same buffers, also where these still hold its results of other
// data, repeatedly and to the same bits, replayed from a graph, on shapes beside the one asked for,
// and with other instances at work between its passes; it must be done when its stream is, and
// leave its inputs, other passes' gradients, the memory around its buffers and what lies behind its
// workspace alone; thousands of calls must give the same bits, and must not be faster where the
// data stay the same than where they change. No time is worth printing before that.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/agreement.h"
#include "measure/check_set.h"
#include "measure/fault.h"
#include "measure/layer_rig.h"

namespace duet {

/// One output of the pass beside the reference's.
struct TensorResult {
  std::string name;
  TensorDesc desc;
  Agreement agreement;
  Limit limit;
};

struct Examination {
  std::vector<TensorResult> tensors;  // on the first data
  int64_t replayed = 0;  // calls on the same data whose outputs were compared bit by bit
  std::vector<Fault> faults;
  bool spoils_process = false;  // leaves behind what nobody can undo
  bool passed() const { return faults.empty(); }
};

/// What the reference makes of data for small problems beside one that is checked, computed when it
/// is first asked for and kept for the implementations examined next.
class NeighbourReferences {
 public:
  enum class Kind { kRandom, kHard, kNotFinite };  // of data: random_data(), hard_data()
  struct Entry {
    LayerData data;
    Reference expected;
  };
  /// REQUIRES: all layers asked for have the same layouts and options.
  const Entry& of(const Layer& neighbour, Kind kind, const LayerSituation& situation, Pass pass);

 private:
  std::map<std::string, Entry> entries_;
};

/// Two sets of data for one problem, of different steps and different in every value, and what the
/// reference makes of them. CheckLevel::kAgreement needs the first alone.
struct CheckData {
  LayerSituation situation = {};
  LayerData data, other_data = {};
  Reference expected, other_expected = {};
  /// The first data leave nothing to round: outputs must equal `expected`, rounded as stored.
  bool exact = false;
  std::shared_ptr<NeighbourReferences> neighbours = std::make_shared<NeighbourReferences>();
};

/// The two for one pass, on a device. REQUIRES: `check_data` outlives this.
struct CheckSets {
  CheckSets(const Layer& layer, Pass pass, const CheckData& check_data, Device device,
            bool exact = false)
      : first(layer, pass, check_data.data, check_data.expected, device, exact) {
    if (check_data.other_expected.outputs.empty()) return;
    other.emplace(layer, pass, check_data.other_data, check_data.other_expected, device);
  }

  CheckSet first;
  std::optional<CheckSet> other;
};

/// `data` is the first set; the other is drawn at random. Elements of dy whose gradient rounding
/// would decide are set to zero (Layer::settle). The reference may take minutes: where `stop` is
/// given and comes to return true, this soon throws InterruptedError.
CheckData make_check_data(const Layer& layer, LayerData data, const LayerSituation& situation,
                          const std::vector<Pass>& passes, bool (*stop)() = nullptr);
/// Data for times alone: in place of the reference's results stands what `id` itself gives of
/// `data`, and there are no other data. REQUIRES: `id` supports `pass`.
CheckData make_own_check_data(const Layer& layer, std::string_view id, Pass pass,
                              const CheckData& check_data, Context& context);
/// The same for a layer of the same sizes in other layouts.
CheckData relayout(const CheckData& check_data, const Layer& from, const Layer& to);

/// How much check() does.
enum class CheckLevel {
  kAgreement,   // agreement with the reference, the same bits twice, no damage, and gradients of
                // inputs that nobody wants: on the first data alone
  kEverything,  // all that is told above
};

/// Runs `pass`. A class of faults that would follow from an earlier one is not looked for. Throws
/// InterruptedError soon after an interrupt. REQUIRES: `check_data` is of this layer and has
/// `pass`; `id` supports the pass.
Examination check(const Layer& layer, std::string_view id, Pass pass, const CheckData& check_data,
                  Context& context, CheckLevel level = CheckLevel::kEverything);

/// Runs the passes that the set's needs to have run, then that, from loaded data; `after_each` of
/// them does what it does. Inputs in `without_dx` get no gradient.
void run_through(
    LayerRig& rig, const CheckSet& set, const std::vector<size_t>& without_dx = {},
    const std::function<void()>& after_each = [] {});
/// The same, but only queued, and unwatched.
void queue_through(LayerRig& rig, const CheckSet& set);
/// The passes among `passes_before` that `id` can run, and `pass`.
std::vector<Pass> passes_through(const Layer& layer, std::string_view id, Pass pass);

/// Every output of the set's pass as it lies in the rig, held to the reference's.
std::vector<TensorResult> hold_to(const CheckSet& set, LayerRig& rig);
TensorResult hold_to(const NamedValues& expected, const NamedValues& found, const Layer& layer,
                     Pass pass);
bool all_agree(const std::vector<TensorResult>& tensors);

}  // namespace duet
