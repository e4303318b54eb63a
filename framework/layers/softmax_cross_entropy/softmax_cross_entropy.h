// softmax_cross_entropy: the loss of a classifier, as torch.nn.CrossEntropyLoss on class indices; the
// tensors are those of loss.h.
//
//   p = softmax(x); e = label_smoothing; v = class_weights (1 each if there are none)
//   loss of row i = (1 - e) * v[label] * -log p[label] + e / C * sum over j of v[j] * -log p[j]
//   y[0] = their sum / W, with W the sum of v[label] over the counted rows; 0 where W is 0
//   dx   = dy / W * (((1 - e) * v[label] + e / C * sum of v) * p
//                    - (1 - e) * v[label] * onehot(label) - e / C * v); 0 where W is 0
//
// Keys: label_smoothing 0 (to 1), class_weights (one a class, not negative, not all 0).
#pragma once

#include "core/host_device.h"
#include "layers/loss.h"

namespace duet {

struct SoftmaxCrossEntropyProblem {
  int n = 1, c = 1;
  DType dtype = DType::kFloat32;
  float label_smoothing = 0.0f;
  std::vector<float> class_weights;  // c of them, or none

  int64_t elements() const { return int64_t{n} * c; }
  std::string to_string() const;
};

/// What the softmax of a row is compared with.
struct SoftTargets {
  const float* class_weights = nullptr;  // null: 1 each
  float kept = 1.0f;                     // 1 - label_smoothing
  float spread = 0.0f;                   // label_smoothing / c
  float total = 0.0f;                    // sum of the class weights

  SoftTargets() = default;
  /// `class_weights` are the problem's, in memory that the caller's loops can read.
  SoftTargets(const SoftmaxCrossEntropyProblem& problem, const float* class_weights);

  DUET_HOST_DEVICE float weight(int j) const { return class_weights ? class_weights[j] : 1.0f; }
  /// The factor of -log p[j].
  DUET_HOST_DEVICE float of(int j, int label) const {
    return (j == label ? kept * weight(j) : 0.0f) + spread * weight(j);
  }
  /// The sum of of(j, label) over j.
  DUET_HOST_DEVICE float sum(int label) const { return kept * weight(label) + spread * total; }
};

const LayerType& softmax_cross_entropy_type();

using SoftmaxCrossEntropyImpl = LossImpl<SoftmaxCrossEntropyProblem>;

std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls();

}  // namespace duet
