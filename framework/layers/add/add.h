// add: y = x[0] + x[1] + ..., as a + b of PyTorch without broadcasting: tensors of one shape and
// layout, summed in their order. The gradient of every input is dy itself, so that a network has no
// backward pass to run. No keys.
//
// split: hands its input to several readers: y[i] = x, so that a network has no forward pass to
// run; dx = dy[0] + dy[1] + .... A network has one wherever a value has several readers that have a
// gradient (net/resolve.h). Keys: outputs 2 (from 2 to 64).
//
// add_relu: y[i] = relu(x[0] + x[1] + ...), with as many outputs as the value has readers;
// dx[k] = (dy[0] + dy[1] + ...) times relu's gradient, which is 1 where y > 0 (or is NaN) and else
// 0. A network has one in the place of add, relu and the split behind them (net/fuse.h). Keys:
// outputs 1 (from 1 to 64).
#pragma once

#include <algorithm>

#include "layers/layer.h"

namespace duet {

/// Of one value: outputs of split and add_relu.
inline constexpr int64_t kMostReaders = 64;

/// Of all. All tensors have one desc.
struct AddProblem {
  TensorDesc x;
  int64_t inputs = 1;
  int64_t outputs = 1;
  bool relu = false;
  DType dtype = DType::kFloat32;

  std::string to_string() const;
};

const LayerType& add_type();
const LayerType& add_relu_type();
const LayerType& split_type();

class AddImpl : public ImplementationOf<AddProblem> {
 public:
  explicit AddImpl(const AddProblem& problem) : ImplementationOf(problem) {
    for (std::vector<Tensor>* list : {&from_, &to_}) {
      list->reserve(static_cast<size_t>(std::max(problem.inputs, problem.outputs)));
    }
  }

  /// What becomes of a sum before it is written: nothing; relu of it; or relu's gradient, the sum
  /// where y > 0 and else 0.
  enum class Then { kNothing, kRelu, kReluGradient };

  /// to = then(from[0] + from[1] + ...); at least two are summed, or one where something follows.
  /// `y` is there for kReluGradient.
  virtual void sum(const Run& run, const std::vector<Tensor>& from, Then then, const Tensor& y,
                   const Tensor& to) = 0;

  SavedTensors reads(Pass) const final { return {.y = problem_.relu}; }
  /// Many tensors into one are summed: forward of add, backward of split. What goes to many goes as
  /// copies, but where they are one in memory.
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const bool forward = pass == Pass::kForward;
    take(forward ? t.x : t.dy, from_);
    take(forward ? t.y : t.dx, to_);
    if (to_.empty()) return;
    const Then then = !problem_.relu ? Then::kNothing : forward ? Then::kRelu : Then::kReluGradient;
    const Tensor* made = &from_[0];
    if (from_.size() > 1 || then != Then::kNothing) {
      sum(run, from_, then, t.y[0], to_[0]);
      made = &to_[0];
    }
    for (const Tensor& each : to_) {
      if (each.memory == made->memory) continue;
      run.context.queue_copy(each.memory, made->memory, made->bytes());
    }
  }

 private:
  // Without gradients that nobody wants or no reader gives.
  static void take(const std::vector<Tensor>& from, std::vector<Tensor>& to) {
    to.clear();
    std::copy_if(from.begin(), from.end(), std::back_inserter(to),
                 [](const Tensor& tensor) { return static_cast<bool>(tensor); });
  }

  std::vector<Tensor> from_, to_;  // of a run
};

std::vector<ImplEntry<AddProblem>>& add_impls();

}  // namespace duet
