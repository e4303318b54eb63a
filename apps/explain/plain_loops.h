// The definition of what a layer computes, as the text of plain loops in C++.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// Loops over the vectors x_values, w_values, ... of a program. Each output has a function
/// Expected plain_NAME(size_t i) for the element that lies i elements behind its first.
struct PlainLoops {
  struct Output {
    std::string name;   // y, dx, ...
    int64_t terms = 1;  // that an element takes
    double limit = 0;   // the difference allowed, as a share of Expected::size
    std::string reason;
  };
  std::string functions;  // with the sizes that they use
  std::string prepare;    // the lines of what must be computed before, or empty
  /// An output of which the loops read NAME_found, what the calls gave: a mask that a library draws
  /// stands nowhere else. Or empty.
  std::string found;
  std::string checks;  // the lines of what else must hold, or empty
  std::vector<Output> outputs;
};

/// Nothing for a type that has none.
std::optional<PlainLoops> plain_loops(const Layer& layer, Pass pass);

}  // namespace duet
