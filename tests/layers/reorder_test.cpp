#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> reorder_cases() {
  const auto image = [](int64_t n, int64_t c, int64_t h, int64_t w, Layout layout) {
    return TensorDesc{{n, c, h, w}, DType::kFloat32, layout};
  };
  std::vector<LayerCase> cases;
  for (Layout from : {Layout::kNCHW, Layout::kNHWC}) {
    for (const char* to : {"nchw", "nhwc"}) {
      const std::string name = std::string(to_string(from)) + "_to_" + to;
      const std::vector<std::pair<std::string, std::string>> keys = {{"to", to}};
      cases.push_back({.name = name + "_one", .keys = keys, .x = {image(1, 1, 1, 1, from)}});
      cases.push_back({.name = name + "_primes", .keys = keys, .x = {image(2, 3, 5, 7, from)}});
      cases.push_back({.name = name + "_c33", .keys = keys, .x = {image(3, 33, 31, 2, from)}});
      cases.push_back({.name = name + "_c3", .keys = keys, .x = {image(2, 3, 37, 41, from)}});
      cases.push_back({.name = name + "_c2", .keys = keys, .x = {image(2, 2, 61, 67, from)}});
      cases.push_back({.name = name + "_c1", .keys = keys, .x = {image(3, 1, 53, 59, from)}});
      cases.push_back({.name = name + "_c31", .keys = keys, .x = {image(2, 31, 13, 17, from)}});
      cases.push_back({.name = name + "_c1000", .keys = keys, .x = {image(2, 1000, 1, 3, from)}});
      cases.push_back({.name = name + "_c64", .keys = keys, .x = {image(1, 64, 32, 32, from)}});
      cases.push_back(
          {.name = name + "_one_pixel", .keys = keys, .x = {image(4, 129, 1, 1, from)}});
    }
  }
  for (LayerCase& c : cases) {
    c.exact = true;
    c.gradient_check = c.x[0].elements() < 1000;
  }
  return cases;
}

}  // namespace duet
