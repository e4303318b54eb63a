#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> dropout_cases() {
  return {
      {.name = "half", .x = {{{7, 13}}}},
      {.name = "fifth", .keys = {{"p", "0.2"}}, .x = {{{3, 50}}}},
      {.name = "nothing", .keys = {{"p", "0"}}, .x = {{{3, 50}}}, .exact = true},
      {.name = "image_nchw", .x = {{{2, 3, 5, 7}}}},
      {.name = "image_nhwc", .x = {{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}},
      {.name = "vector_length_1027", .x = {{{1, 1027}}}},
      {.name = "large", .x = {{{8, 16, 33, 31}}}, .gradient_check = false},
      {.name = "late_step", .x = {{{5, 17}}}, .step = (uint64_t{3} << 32) + 9},
      {.name = "evaluation", .x = {{{5, 17}}}, .exact = true, .training = false},
      {.name = "integers", .x = {{{5, 17}}}, .data = Data::kIntegers, .exact = true},
  };
}

}  // namespace duet
