// A problem of a layer, from the words that people write to a bound layer and back.
//
// A word is, in this order: a size of the input (n, c, h, w of images; n, in or n, c of features;
// or x=64x1x28x28, of which n= replaces the first size), a setting (layout, math, dtype),
// one of the layer type's shape_words, one of its keys (pairs as 2x1), or a size
// that follows from the others (p, q), which is checked. Nothing here knows a layer type by name.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "compare/results/problem_words.h"
#include "layers/layer.h"

namespace duet {

/// The layer type of that name. Throws ConfigError with the nearest one.
const LayerType& layer_type(std::string_view name);

/// REQUIRES: one value for each word. Throws ConfigError in terms of the words.
std::unique_ptr<Layer> bind_problem(const LayerType& type, const ProblemWords& words);

/// Words that bind_problem() makes the same problem of, as few as possible: what is a default or
/// follows from the others is left out. "n=64,c=1,h=28,w=28,k=64,r=3,s=3".
/// REQUIRES: the layer is float32.
std::string problem_argument(const Layer& layer);

}  // namespace duet
