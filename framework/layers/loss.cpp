#include "layers/loss.h"

namespace duet {

std::vector<TensorDesc> loss_outputs(DType dtype) {
  return {TensorDesc{{1}, accumulator_of(dtype)}, TensorDesc{{2}, DType::kInt32}};
}

std::vector<TensorDesc> loss_outputs(const std::vector<TensorDesc>& inputs, bool can_mix) {
  const TensorDesc& x = inputs[0];
  if (x.shape.rank() != 2) {
    throw ShapeError("takes logits N x C, not " + x.shape.to_string() +
                     "; put flatten or linear before it, or use mse_loss, l1_loss or "
                     "charbonnier_loss for targets of that shape");
  }
  const int64_t n = x.shape[0];
  const bool mixed = inputs[1] == labels_desc(n, true);
  if (mixed && !can_mix) {
    throw ShapeError(
        "takes no mixed labels; of the losses softmax_cross_entropy alone does: use it, "
        "or take mixup out of data.augment");
  }
  if (!mixed && inputs[1] != labels_desc(n)) {
    throw ShapeError("takes labels " + labels_desc(n).to_string() + ", not " +
                     inputs[1].to_string());
  }
  if (x.elements() > ConfigReader::kMaxInteger) throw ShapeError("takes fewer than 2^31 logits");
  return loss_outputs(x.dtype);
}

std::string loss_text(int n, int c, DType dtype, const std::string& keys) {
  const std::string text = "n=" + std::to_string(n) + " c=" + std::to_string(c) + keys;
  return dtype == DType::kFloat32 ? text : text + " " + std::string(to_string(dtype));
}

}  // namespace duet
