#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> tanh_cases() {
  return {
      {.name = "one_element", .x = {{{1, 1}}}},
      {.name = "image_nchw", .x = {{{2, 3, 5, 7}}}, .scale = 3},
      {.name = "image_nhwc", .x = {{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}},
      {.name = "vector_length_1027", .x = {{{1, 1027}}}},
      {.name = "large", .x = {{{8, 16, 33, 31}}}, .scale = 5, .gradient_check = false},
      {.name = "saturated", .x = {{{5, 17}}}, .scale = 100},
      {.name = "non_finite", .x = {{{5, 17}}}, .data = Data::kNonFinite},
  };
}

}  // namespace duet
