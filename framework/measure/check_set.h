// One set of check data where implementations run, so that many runs start from copies, and are
// compared, on that device. On the CPU the reference's values are looked at where they are.
#pragma once

#include <memory>
#include <vector>

#include "measure/comparison_sums.h"
#include "measure/layer_data.h"

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

}  // namespace duet
