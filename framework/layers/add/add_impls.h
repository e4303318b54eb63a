// The interface of add and split, and the list of their implementations.
#pragma once

#include "layers/add/add.h"

namespace duet {

class AddImpl : public Implementation {
 public:
  explicit AddImpl(const AddProblem& problem) : problem_(problem) {}

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

 protected:
  const AddProblem problem_;
};

ImplEntry<AddProblem> add_cpu_reference();

std::vector<ImplEntry<AddProblem>>& add_impls();

}  // namespace duet
