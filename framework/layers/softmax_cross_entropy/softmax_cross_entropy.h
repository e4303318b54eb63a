// softmax_cross_entropy: the loss of a classifier, as torch.nn.CrossEntropyLoss on class indices; the
// tensors are those of loss.h, with positions: x is N x C with a label a row, or N x T x C with a
// label a position, each of which is a row below. In memory both are rows of C logits.
//
//   p = softmax(x); e = label_smoothing; v = class_weights (1 each if there are none)
//   loss of row i = (1 - e) * v[label] * -log p[label] + e / C * sum over j of v[j] * -log p[j]
//   y[0] = their sum / W, with W the sum of v[label] over the counted rows; 0 where W is 0
//   dx   = dy / W * (((1 - e) * v[label] + e / C * sum of v) * p
//                    - (1 - e) * v[label] * onehot(label) - e / C * v); 0 where W is 0
//
// A row of mixed labels has the loss s * (that with its label) + (1 - s) * (that with the other), its
// v[label] in W is s * v[label] + (1 - s) * v[other], and it is a hit if the largest output is that of
// the label with the larger share (of equal ones the first). It counts if both labels do.
//
// Keys: label_smoothing 0 (to 1), class_weights (one a class, not negative, not all 0), ignore_class
// (a label whose rows do not count, as PyTorch's ignore_index; need not be a class).
#pragma once

#include "layers/loss.h"

namespace duet {

struct SoftmaxCrossEntropyProblem {
  Shape x = {1, 1};
  int n = 1, c = 1;  // rows, and logits of each
  DType dtype = DType::kFloat32;
  float label_smoothing = 0.0f;
  std::vector<float> class_weights;  // c of them, or none
  bool mixed = false;                // the labels
  int32_t ignored_class = kNoClass;

  int64_t elements() const { return int64_t{n} * c; }
  std::string to_string() const;
};

/// What the softmax of a row is compared with.
struct SoftTargets {
  const float* class_weights = nullptr;  // null: 1 each
  bool mixed = false;
  int32_t ignored = kNoClass;
  float kept = 1.0f;    // 1 - label_smoothing
  float spread = 0.0f;  // label_smoothing / c
  float total = 0.0f;   // sum of the class weights

  SoftTargets() = default;
  /// `class_weights` are the problem's, in memory that the caller's loops can read.
  SoftTargets(const SoftmaxCrossEntropyProblem& problem, const float* class_weights);

  DUET_HOST_DEVICE RowLabels of_row(const int32_t* labels, int64_t row) const {
    return labels_of_row(labels, mixed, row, ignored);
  }

  DUET_HOST_DEVICE float weight(int j) const { return class_weights ? class_weights[j] : 1.0f; }
  /// The row's part of W.
  DUET_HOST_DEVICE float weight(const RowLabels& labels) const {
    return labels.mean([this](int j) { return weight(j); });
  }
  /// The factor of -log p[j].
  DUET_HOST_DEVICE float of(int j, const RowLabels& labels) const {
    const float share = (j == labels.label ? labels.share : 0.0f) +
                        (j == labels.other ? 1.0f - labels.share : 0.0f);
    return (share * kept + spread) * weight(j);
  }
  /// The sum of of(j, labels) over j.
  DUET_HOST_DEVICE float sum(const RowLabels& labels) const {
    return kept * weight(labels) + spread * total;
  }
};

const LayerType& softmax_cross_entropy_type();

using SoftmaxCrossEntropyImpl = LossImpl<SoftmaxCrossEntropyProblem>;

std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls();

}  // namespace duet
