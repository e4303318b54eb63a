#include "layers/pair.h"

#include "core/field.h"

namespace duet {

void check_pair(const std::vector<TensorDesc>& inputs) {
  const TensorDesc &x = inputs[0], &targets = inputs[1], &rows = inputs[2];
  if (x.shape.rank() == 0) throw ShapeError("takes tensors of at least one axis, N first");
  const bool same_order = x.shape.rank() != 4 || x.layout == targets.layout;
  if (x.shape != targets.shape || x.dtype != targets.dtype || !same_order) {
    throw ShapeError("compares tensors of one shape, type and layout, not " + x.to_string() +
                     " with targets " + targets.to_string());
  }
  if (rows.shape != Shape{x.shape[0]} || rows.dtype != DType::kInt32) {
    throw ShapeError("takes rows " + rows_desc(x.shape[0]).to_string() + ", not " +
                     rows.to_string());
  }
}

}  // namespace duet
