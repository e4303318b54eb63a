// Data for a check, and what the reference makes of them: whole, and as sets for one pass where
// implementations run, so that many runs start from copies, and are compared, on that device. On the
// CPU the reference's values are looked at where they are.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/check/comparison_sums.h"
#include "measure/check/layer_rig.h"

namespace duet {

/// What a pass is run on and held to. REQUIRES: `expected` outlives this.
class CheckSet {
 public:
  /// `exact`: outputs must equal the reference's, rounded once as the layer stores them.
  CheckSet(const Layer& layer, Pass pass, const LayerData& data, const Reference& expected,
           Device device, bool exact = false);

  Pass pass() const { return pass_; }
  bool exact() const { return exact_; }
  const std::shared_ptr<const StoredData>& data() const { return data_; }
  /// The reference's y as the layer's tensors store it, for a backward pass whose forward pass
  /// another implementation runs.
  const std::vector<Buffer>& y() const { return y_; }
  /// The pass's outputs by the reference, on the host; and the same on the device, in that order.
  const std::vector<NamedValues>& outputs() const { return outputs_; }
  const ExpectedValues& expected(size_t output) const { return expected_.at(output).values; }

 private:
  struct Expected {
    Buffer memory, size_memory;  // on a GPU
    ExpectedValues values;
  };

  const Pass pass_;
  const bool exact_;
  const std::vector<NamedValues> rounded_;  // if exact
  const std::vector<NamedValues>& outputs_;
  std::shared_ptr<const StoredData> data_;
  std::vector<Buffer> y_;
  std::vector<Expected> expected_;
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
/// The first set alone, for CheckLevel::kAgreement.
CheckData make_first_check_data(const Layer& layer, LayerData data, const LayerSituation& situation,
                                const std::vector<Pass>& passes, bool (*stop)() = nullptr);
/// Data for times alone: in place of the reference's results stands what `id` itself gives of
/// `data`, and there are no other data. REQUIRES: `id` supports `pass`.
CheckData make_own_check_data(const Layer& layer, std::string_view id, Pass pass,
                              const CheckData& check_data, Context& context);
/// The same for a layer of the same sizes in other layouts.
CheckData relayout(const CheckData& check_data, const Layer& from, const Layer& to);

/// One output of the pass beside the reference's.
struct TensorResult {
  std::string name;
  TensorDesc desc;
  Agreement agreement;
  Limit limit;
};

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
