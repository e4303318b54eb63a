#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> linear_cases() {
  const auto sized = [](int64_t n, int64_t in, int64_t out, bool bias = true) {
    return LayerCase{
        .name = "n" + std::to_string(n) + "_in" + std::to_string(in) + "_out" +
                std::to_string(out) + (bias ? "" : "_no_bias"),
        .keys = {{"out_features", std::to_string(out)}, {"bias", bias ? "true" : "false"}},
        .x = {{{n, in}}}};
  };
  std::vector<LayerCase> cases = {
      sized(1, 1, 1),      sized(1, 7, 3),           sized(5, 1, 4),    sized(4, 3, 1),
      sized(13, 31, 17),   sized(13, 31, 17, false), sized(2, 784, 10), sized(64, 128, 64),
      sized(65, 129, 127), sized(3, 1031, 33, false)};
  for (LayerCase& c : cases) c.gradient_check = c.x[0].elements() < 1000;
  LayerCase exact = sized(33, 65, 35);
  exact.name = "integers";
  exact.data = Data::kIntegers;
  exact.exact = true;
  cases.push_back(exact);
  LayerCase tf32 = sized(64, 257, 96);
  tf32.name = "tf32";
  tf32.options.math = Math::kTF32;
  cases.push_back(tf32);
  return cases;
}

}  // namespace duet
