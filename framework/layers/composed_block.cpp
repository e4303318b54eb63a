#include "layers/composed_block.h"

#include "device/side_stream.h"

namespace duet {

void ComposedBlock::add(std::string_view layer, std::string_view id,
                        std::unique_ptr<Implementation> implementation, const TensorDesc& x) {
  Part part = {layer, id, std::move(implementation), x};
  part.state = state_.reserve(part.implementation->state_bytes());
  if (!parts_.empty()) {
    part.value = state_.reserve(part.x.bytes());
    part.gradient = state_.reserve(part.x.bytes());
  }
  parts_.push_back(std::move(part));
}

void ComposedBlock::prepare(Pass pass, Context& context) {
  for (size_t i = 0; i < count(pass); ++i) {
    parts_[i].implementation->prepare(pass_of(i, pass), context);
  }
}

size_t ComposedBlock::workspace_bytes(Pass pass) const {
  size_t bytes = 0;
  for (size_t i = 0; i < count(pass); ++i) {
    bytes = std::max(bytes, parts_[i].implementation->workspace_bytes(pass_of(i, pass)));
  }
  return bytes;
}

std::string ComposedBlock::detail(Pass pass) const {
  const size_t number = calls(pass).size();
  const std::string first = parts_[0].implementation->detail(pass);
  return "not fused, " + std::to_string(number) + (number == 1 ? " call" : " calls") +
         (first.empty() ? "" : "; " + std::string(parts_[0].layer) + ": " + first);
}

/// Functions of a library, or else the part itself.
std::vector<std::string> ComposedBlock::calls(Pass pass) const {
  std::vector<std::string> all;
  for (size_t i = 0; i < count(pass); ++i) {
    std::vector<std::string> calls = parts_[i].implementation->calls(pass_of(i, pass));
    if (calls.empty()) calls = {std::string(parts_[i].layer) + " " + std::string(parts_[i].id)};
    all.insert(pass == Pass::kForward ? all.end() : all.begin(), calls.begin(), calls.end());
  }
  return all;
}

void ComposedBlock::run(Pass pass, const Run& run, const LayerTensors& t) {
  const bool wanted = std::any_of(t.dw.begin(), t.dw.end(), [](const Tensor& dw) { return !!dw; });
  if (pass == Pass::kBackward && !t.dx[0] && !wanted) return;
  char* const state = t.state.data<char>();
  LayerTensors &first = parts_.front().tensors, &last = parts_.back().tensors;
  first.x = t.x, first.dx = t.dx, first.w = t.w, first.dw = t.dw;
  last.y = t.y, last.dy = t.dy;
  for (size_t i = 1; i < parts_.size(); ++i) {
    const Part& part = parts_[i];
    LayerTensors &before = parts_[i - 1].tensors, &after = parts_[i].tensors;
    before.y[0] = after.x[0] = {part.x, state + part.value};
    before.dy[0] = after.dx[0] = {part.x, state + part.gradient};
  }
  for (size_t step = 0; step < count(pass); ++step) {
    const size_t i = pass == Pass::kForward ? step : count(pass) - 1 - step;
    Part& part = parts_[i];
    part.tensors.state = {
        {{static_cast<int64_t>(part.implementation->state_bytes())}, DType::kUInt8},
        state + part.state};
    // The first part has the parameters, and backward_data needs only what the others wrote.
    const bool beside = i == 0 && pass == Pass::kBackwardFilter;
    part.implementation->run(pass_of(i, pass), beside ? aside(run) : run, part.tensors);
  }
}

}  // namespace duet
