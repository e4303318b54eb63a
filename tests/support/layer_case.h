// A case of a layer: its keys, its inputs and the data to try it on. Every layer type lists its
// cases in tests/layers/<type>_test.cpp; the driver runs each with every implementation of the
// layer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/check/layer_data.h"

namespace duet {

enum class Data {
  kNormal,     // scale * N(0, 1)
  kIntegers,   // whole numbers from -3 to 3: sums and products of them are exact
  kDistinct,   // scale * a shuffled grid from -2 to 2: no two values equal, none near 0
  kTies,       // 0, 0.5 or 1: most windows hold their maximum several times
  kNonFinite,  // kNormal with some NaNs and infinities
  kUnit,       // uniform in (0, 1)
  kShifted,    // 1000 + kNormal: what a sum of squares cancels
};

struct LayerCase {
  std::string name;  // unique in its type; letters, digits, '_'
  /// {{"kernel", "[3, 5]"}, {"padding", "1"}}; scalars or flat lists, as in YAML.
  std::vector<std::pair<std::string, std::string>> keys;
  /// float32 (bfloat16 where options.math is kBF16, whatever stands here), and int32 labels or rows,
  /// a fifth of which do not count.
  std::vector<TensorDesc> x;
  Data data = Data::kNormal;
  double scale = 1;
  /// Instead of `data`, for each input (not for labels).
  std::vector<Data> data_of;
  /// Every output must equal the reference; for kIntegers where no rounding happens.
  bool exact = false;
  LayerOptions options = {.math = Math::kFP32, .seed = 1234, .stream = 3};
  bool training = true;
  uint64_t step = 5;
  /// Leave the backward passes out.
  bool forward_only = false;
  /// Leave them out for these implementations, whose gradient differs; the case says how.
  std::vector<std::string> forward_only_by = {};
  /// Also differentiate cpu_reference numerically on this case's shapes (with kDistinct data).
  bool gradient_check = true;

  LayerSituation situation() const { return {.training = training}; }
};

/// The cases, whose first input is an image in NCHW, and each again in NHWC.
std::vector<LayerCase> in_both_layouts(std::vector<LayerCase> cases);

/// The same case in bf16. What is done in double alone is left to the case itself.
LayerCase in_bf16(LayerCase c);

/// The layer of a case, bound to inputs whose floating-point tensors are `dtype`, or what its maths
/// stores.
std::unique_ptr<Layer> make_layer(std::string_view type, const LayerCase& c,
                                  std::optional<DType> dtype = {});

/// The values of a case's inputs, parameters and output gradients.
LayerData make_data(const LayerCase& c, const Layer& layer);

}  // namespace duet
