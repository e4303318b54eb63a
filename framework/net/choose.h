// Which implementation runs each pass of a layer. The layer's own request comes before the network's;
// an id means exactly that one; a family means the first of its entries that supports the problem;
// auto means any that does, and which is for measurement to say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "net/resolve.h"

namespace duet {

/// Fewer passes than the layer has where something cannot be done: `problems` say what. A pass that
/// never runs is left out, without a problem, if nothing can do it.
struct Choice {
  struct Problem {
    Mark mark;
    std::string text;
    bool unsupported;
  };
  std::vector<PassChoice> passes;
  std::vector<Problem> problems;
};

/// `gradient`: whether the gradient of an input is needed.
Choice choose(const NetSpec& spec, const LayerSpec& layer_spec, const Layer& layer, bool gradient);

/// What `family` runs that pass by in a network of that workspace limit and `fp32_in_parts`: the first of its implementations that can and is
/// preferred (ImplEntry::preferred), or else the first that can. Nothing: none can. Of a layer whose passes share
/// state, forward's can do all passes, and the others' go on with what it keeps.
std::optional<std::string> choose_of(const NetSpec& spec, const Layer& layer, Family family,
                                     Pass pass, bool gradient = true);

/// Whether backward by `b` can go on with what forward by `a` keeps.
bool share_state(const Layer& layer, const std::string& a, const std::string& b);

/// "layer conv1 (conv2d)"
std::string label_of(const std::string& name, const Layer& layer);

}  // namespace duet
