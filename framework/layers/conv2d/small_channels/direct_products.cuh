// custom_direct's products on tensor cores, for custom_direct and custom_direct_3xtf32.
#pragma once

#include <optional>
#include <string>

#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/small_channels/direct_convolution.cuh"
#include "layers/conv2d/small_channels/direct_filter_product.cuh"
#include "layers/conv2d/small_channels/direct_forward_product.cuh"
#include "layers/conv2d/small_channels/direct_input_product.cuh"

namespace duet {

inline bool direct_product_possible(const Conv2dProblem& d, Pass pass) {
  if (pass == Pass::kForward) return forward_product_possible(d);
  return pass == Pass::kBackwardData ? input_product_possible(d) : filter_product_possible(d);
}
/// Why a problem has none, for people.
inline std::string no_direct_product(Pass pass) {
  const std::string all = "has it on tensor cores only, in nchw, with rows of y of whole 16 bytes";
  return pass == Pass::kBackwardData
             ? all + ", dilation 1, and a stride whose product with the channels is 16 at most"
             : all + ", up to 4 channels and 200 weights a filter";
}

/// By what both take on an H100: backward_filter's product on tensor cores (bytes of x and dy) and the sums on
/// float32 units.
inline bool filter_product_pays(const Conv2dProblem& d) {
  if (direct_unsupported(d, Pass::kBackwardFilter)) return true;
  const double bytes = double(d.x_desc().bytes()) + double(d.y_desc().bytes());
  return 10 + bytes / 1.8e6 < 6 + double(d.products()) / 5e6;
}

/// Those that the problem has, by that instruction.
template <class Mma, class T>
struct DirectProducts {
  std::optional<DirectForwardProduct<Mma, T>> forward;
  std::optional<DirectInputProduct<Mma, T>> backward_data;
  std::optional<DirectFilterProduct<Mma, T>> backward_filter;

  explicit DirectProducts(const Conv2dProblem& problem) {
    if (forward_product_possible(problem)) forward.emplace(problem);
    if (input_product_possible(problem)) backward_data.emplace(problem);
    if (filter_product_possible(problem)) backward_filter.emplace(problem);
  }
  /// Empty where the pass has none.
  std::string text(Pass pass) const {
    const auto of = [](const auto& product) { return product ? product->text() : std::string(); };
    if (pass == Pass::kForward) return of(forward);
    return pass == Pass::kBackwardData ? of(backward_data) : of(backward_filter);
  }
};

}  // namespace duet
