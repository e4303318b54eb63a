#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> relu_cases() {
  return {
      {.name = "one_element", .x = {{{1, 1}}}},
      {.name = "features_7x13", .x = {{{7, 13}}}},
      {.name = "image_nchw", .x = {{{2, 3, 5, 7}}}},
      {.name = "image_nhwc", .x = {{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}},
      {.name = "vector_length_1027", .x = {{{1, 1027}}}},
      {.name = "large", .x = {{{8, 16, 33, 31}}}, .gradient_check = false},
      {.name = "integers", .x = {{{5, 17}}}, .data = Data::kIntegers, .exact = true},
      {.name = "zeros", .x = {{{5, 17}}}, .data = Data::kTies, .exact = true},
      // cuDNN's gradient at NaN is 0, PyTorch's is dy. The output is NaN all the same.
      {.name = "non_finite",
       .x = {{{5, 17}}},
       .data = Data::kNonFinite,
       .forward_only_by = {"cudnn"}},
  };
}

}  // namespace duet
