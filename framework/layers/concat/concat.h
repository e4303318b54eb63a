// concat: its inputs one behind the other along the channels (axis 1), as torch.cat(x, 1): N x C x
// H x W or N x F tensors of one layout, which differ in axis 1 alone. Backward cuts dy into the
// parts of each. No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

struct ConcatProblem {
  std::vector<TensorDesc> x;  // dx have the same
  TensorDesc y;               // dy has the same
  DType dtype = DType::kFloat32;

  std::string to_string() const;

  /// In memory y is rows() rows, each of a piece of every input: an image, or a pixel in NHWC.
  int64_t rows() const;
  /// Elements of a row of a tensor of these.
  int64_t width(const TensorDesc& desc) const { return desc.elements() / rows(); }
};

const LayerType& concat_type();

/// Tensors as concat.h says.
class ConcatImpl : public ImplementationOf<ConcatProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void join(const Run& run, const std::vector<Tensor>& x, const Tensor& y) = 0;
  /// dx[i] is falsy where nobody needs it.
  virtual void cut(const Run& run, const Tensor& dy, const std::vector<Tensor>& dx) = 0;

  SavedTensors reads(Pass) const final { return {}; }
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      join(run, t.x, t.y[0]);
    } else {
      cut(run, t.dy[0], t.dx);
    }
  }
};

std::vector<ImplEntry<ConcatProblem>>& concat_impls();

}  // namespace duet
