#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> leaky_relu_cases() {
  return {
      {.name = "default_slope", .x = {{{7, 13}}}},
      {.name = "image_nchw", .keys = {{"slope", "0.2"}}, .x = {{{2, 3, 5, 7}}}},
      {.name = "image_nhwc",
       .keys = {{"slope", "0.2"}},
       .x = {{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}},
      {.name = "vector_length_1027", .x = {{{1, 1027}}}},
      {.name = "large", .x = {{{8, 16, 33, 31}}}, .gradient_check = false},
      {.name = "half_integers",
       .keys = {{"slope", "0.5"}},
       .x = {{{5, 17}}},
       .data = Data::kIntegers,
       .exact = true},
      {.name = "slope_one", .keys = {{"slope", "1"}}, .x = {{{5, 17}}}},
      {.name = "slope_zero", .keys = {{"slope", "0"}}, .x = {{{5, 17}}}},
      {.name = "slope_negative", .keys = {{"slope", "-0.5"}}, .x = {{{5, 17}}}},
      {.name = "slope_above_one", .keys = {{"slope", "1.5"}}, .x = {{{5, 17}}}},
      // Forward only: cuDNN's gradient at NaN differs from PyTorch's.
      {.name = "non_finite", .x = {{{5, 17}}}, .data = Data::kNonFinite, .forward_only = true},
  };
}

}  // namespace duet
