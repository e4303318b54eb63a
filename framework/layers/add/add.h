// add: y = x[0] + x[1] + ..., as a + b of PyTorch without broadcasting: tensors of one shape and
// layout, summed in their order. The gradient of every input is dy itself, so that a network has no
// backward pass to run. No keys.
//
// split: hands its input to several readers: y[i] = x, so that a network has no forward pass to
// run; dx = dy[0] + dy[1] + .... A network has one wherever a value has several readers that have a
// gradient (net/resolve.h). Keys: outputs 2 (from 2 to 64).
#pragma once

#include "layers/layer.h"

namespace duet {

/// Of both. All tensors have one desc.
struct AddProblem {
  TensorDesc x;
  int64_t inputs = 1;
  int64_t outputs = 1;
  DType dtype = DType::kFloat32;

  std::string to_string() const;
};

const LayerType& add_type();
const LayerType& split_type();

class AddImpl : public ImplementationOf<AddProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  /// to = from[0] + from[1] + ..., at least two of them.
  virtual void sum(const Run& run, const std::vector<Tensor>& from, const Tensor& to) = 0;

  /// Many tensors into one are summed: forward of add, backward of split. One goes to many as
  /// copies.
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const bool forward = pass == Pass::kForward;
    const std::vector<Tensor>&from = forward ? t.x : t.dy, &to = forward ? t.y : t.dx;
    if (from.size() == 1) {
      for (const Tensor& each : to) {
        if (each) run.context.queue_copy(each.memory, from[0].memory, from[0].bytes());
      }
    } else if (to[0]) {
      sum(run, from, to[0]);
    }
  }
};

std::vector<ImplEntry<AddProblem>>& add_impls();

}  // namespace duet
