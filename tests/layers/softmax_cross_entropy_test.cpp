#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> softmax_cross_entropy_cases() {
  const auto logits = [](int64_t n, int64_t c) -> std::vector<TensorDesc> {
    return {{{n, c}}, {{n}, DType::kInt32}};
  };
  return {
      {.name = "one_row", .x = logits(1, 2)},
      {.name = "one_class", .x = logits(5, 1)},
      {.name = "n64_c10", .x = logits(64, 10)},
      {.name = "n7_c33", .x = logits(7, 33)},
      {.name = "n3_c1000", .x = logits(3, 1000), .scale = 5},
      {.name = "n257_c10", .x = logits(257, 10), .gradient_check = false},
      {.name = "large_logits", .x = logits(16, 10), .scale = 200},
      {.name = "ties", .x = logits(32, 10), .data = Data::kTies},
      {.name = "non_finite", .x = logits(16, 10), .data = Data::kNonFinite},
  };
}

}  // namespace duet
