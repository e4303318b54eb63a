// reorder: copies a rank-4 tensor into another layout; shape and values stay. Backward copies the
// gradient back. A network inserts it where neighbouring layers want different layouts.
// Keys: to (required; nchw or nhwc).
#pragma once

#include "layers/layer.h"

namespace duet {

struct ReorderProblem {
  TensorDesc x;  // dx has the same
  TensorDesc y;  // dy has the same
  DType dtype = DType::kFloat32;

  std::string to_string() const {
    return "x=" + x.to_string() + " to=" + std::string(duet::to_string(y.layout));
  }
};

const LayerType& reorder_type();

/// A copy between NCHW and NHWC is, for each image, the transpose of a row-major matrix: C x (H*W)
/// becomes (H*W) x C, or back. Between equal layouts it is the transpose of a matrix of one row.
struct ReorderMatrix {
  int batch = 1, rows = 1, columns = 1;  // of the source

  ReorderMatrix(const TensorDesc& from, Layout to) {
    const int n = static_cast<int>(from.shape[0]), c = static_cast<int>(from.shape[1]);
    const int pixels = static_cast<int>(from.shape[2] * from.shape[3]);
    if (from.layout == to) {
      columns = n * c * pixels;
    } else {
      batch = n;
      rows = from.layout == Layout::kNCHW ? c : pixels;
      columns = from.layout == Layout::kNCHW ? pixels : c;
    }
  }
};

class ReorderImpl : public ImplementationOf<ReorderProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  /// to = from, each in the layout of its desc: problem.x to problem.y or back.
  virtual void reorder(const Run& run, const Tensor& from, const Tensor& to) = 0;

  SavedTensors reads(Pass) const final { return {}; }
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      reorder(run, t.x[0], t.y[0]);
    } else if (t.dx[0]) {
      reorder(run, t.dy[0], t.dx[0]);
    }
  }
};

std::vector<ImplEntry<ReorderProblem>>& reorder_impls();

}  // namespace duet
