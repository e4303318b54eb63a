#include "layers/loss.h"

namespace duet {

std::vector<TensorDesc> loss_outputs(DType dtype) {
  return {TensorDesc{{1}, accumulator_of(dtype)}, TensorDesc{{2}, DType::kInt32}};
}

void check_labels(const std::vector<TensorDesc>& inputs, LabelShapes allowed) {
  const TensorDesc &x = inputs[0], &labels = inputs[1];
  const bool all = allowed == LabelShapes::kAll;
  if (x.shape.rank() != 2 && !(all && x.shape.rank() == 3)) {
    throw ShapeError("takes logits N x C" + std::string(all ? " or N x T x C" : "") + ", not " +
                     x.shape.to_string() + (all ? ": classes are the last axis" : "") +
                     "; put flatten or linear before it, or use mse_loss, l1_loss or "
                     "charbonnier_loss for targets of that shape");
  }
  const bool mixed = x.shape.rank() == 2 && labels == mixed_labels_desc(x.shape[0]);
  if (mixed && !all) {
    throw ShapeError(
        "takes no mixed labels; of the losses softmax_cross_entropy alone does: use it, "
        "or take mixup out of data.augment");
  }
  const TensorDesc expected = labels_beside(x);
  if (!mixed && labels != expected) {
    throw ShapeError("takes labels " + expected.to_string() + " for logits " + x.shape.to_string() +
                     ", not " + labels.to_string());
  }
  if (x.elements() > ConfigReader::kMaxInteger) throw ShapeError("takes fewer than 2^31 logits");
}

int32_t read_ignored_class(ConfigReader& reader) {
  if (!reader.raw("ignore_class")) return kNoClass;
  return static_cast<int32_t>(reader.integer("ignore_class", {}, 0));
}

std::string loss_text(const Shape& x, DType dtype, const std::string& keys) {
  const std::string text =
      (x.rank() == 2 ? "n=" + std::to_string(x[0]) + " c=" + std::to_string(x[1])
                     : "x=" + x.to_string()) +
      keys;
  return dtype == DType::kFloat32 ? text : text + " " + std::string(to_string(dtype));
}

}  // namespace duet
