// What blocks are made of that run the layers they stand for one after the other, by
// implementations out of those layers' own lists.
#pragma once

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// REQUIRES: it is in the list.
template <class P>
const ImplEntry<P>& entry_of(const std::vector<ImplEntry<P>>& list, std::string_view id) {
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.id == id; });
  if (found == list.end()) throw std::logic_error("no part '" + std::string(id) + "'");
  return *found;
}

/// What a part hands its work to: functions of a library, or else itself.
inline std::vector<std::string> calls_of(std::string_view layer, std::string_view id,
                                         const Implementation& implementation, Pass pass) {
  std::vector<std::string> calls = implementation.calls(pass);
  if (calls.empty()) calls = {std::string(layer) + " " + std::string(id)};
  return calls;
}

/// A layer inside, with room for its tensors, so that nothing is allocated in a run.
struct PartOfBlock {
  std::unique_ptr<Implementation> implementation;
  LayerTensors tensors = {.x = std::vector<Tensor>(1),
                          .y = std::vector<Tensor>(1),
                          .dx = std::vector<Tensor>(1),
                          .dy = std::vector<Tensor>(1),
                          .w = std::vector<Tensor>(2),
                          .dw = std::vector<Tensor>(2)};
  size_t state_offset = 0;  // in the state of the block

  void run(Pass pass, const Run& run, const Tensor& state) {
    tensors.state = {{{static_cast<int64_t>(implementation->state_bytes())}, DType::kUInt8},
                     state.data<char>() + state_offset};
    implementation->run(pass, run, tensors);
  }
};

}  // namespace duet
