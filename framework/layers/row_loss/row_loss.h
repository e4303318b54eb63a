// Losses that are sums over the outputs of a row; the tensors are those of layers/loss.h. They share
// one problem and every implementation, and are layer types with lists of their own. With
// t = onehot(label), the loss is the mean of l over the elements of the counted rows, and
// dx = dy * dl/dx / (C * counted):
//   mse              l = (x - t)^2, as torch.nn.MSELoss. No keys.
//   bce_with_logits  l = log(1 + exp(x)) - t * x, as torch.nn.BCEWithLogitsLoss. No keys.
//   multi_margin     l = max(0, margin - x[label] + x)^p but at the label, where l = 0, as
//                    torch.nn.MultiMarginLoss; the gradient at 0 is 0. Keys: p 1 (or 2), margin 1.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/loss.h"

namespace duet {

enum class RowLossKind { kMse, kBceWithLogits, kMultiMargin };

struct RowLossProblem {
  RowLossKind kind = RowLossKind::kMse;
  int n = 1, c = 1;
  DType dtype = DType::kFloat32;
  double margin = 1.0;  // kMultiMargin
  int p = 1;            // kMultiMargin

  std::string to_string() const;
};

/// l and dl/dx of each kind as a type, so that kernels are compiled for it. `at_label` is x[label],
/// `is_label` whether x is that one. Where kCoupled, dl/dx at the label is minus the sum of the
/// others'.
struct SquaredError {
  static constexpr bool kCoupled = false;
  template <class V>
  DUET_HOST_DEVICE V value(V x, V, bool is_label) const {
    const V error = x - (is_label ? V(1) : V(0));
    return error * error;
  }
  template <class V>
  DUET_HOST_DEVICE V slope(V x, V, bool is_label) const {
    return V(2) * (x - (is_label ? V(1) : V(0)));
  }
};
struct BinaryCrossEntropy {
  static constexpr bool kCoupled = false;
  template <class V>
  DUET_HOST_DEVICE V value(V x, V, bool is_label) const {
    const V z = is_label ? -x : x;  // log(1 + exp(z)) without overflow
    return (z <= V(0) ? V(0) : z) + std::log1p(std::exp(-std::abs(z)));
  }
  template <class V>
  DUET_HOST_DEVICE V slope(V x, V, bool is_label) const {
    const V z = is_label ? -x : x;
    const V sigmoid = V(1) / (V(1) + std::exp(-z));
    return is_label ? -sigmoid : sigmoid;
  }
};
struct Hinge {
  static constexpr bool kCoupled = true;
  double margin;
  int p;

  /// In double everywhere: which of the terms are above 0 is then the same in every
  /// implementation.
  template <class V>
  DUET_HOST_DEVICE V excess(V x, V at_label) const {
    const double z = margin - static_cast<double>(at_label) + static_cast<double>(x);
    return z <= 0.0 ? V(0) : static_cast<V>(z);  // NaN stays
  }
  template <class V>
  DUET_HOST_DEVICE V value(V x, V at_label, bool is_label) const {
    if (is_label) return V(0);
    const V z = excess(x, at_label);
    return p == 2 ? z * z : z;
  }
  /// REQUIRES: !is_label.
  template <class V>
  DUET_HOST_DEVICE V slope(V x, V at_label, bool) const {
    const V z = excess(x, at_label);
    if (p == 2) return V(2) * z;
    return z > V(0) ? V(1) : z;
  }
};

/// Calls visit(term) with the function object of `problem`.
template <class Visit>
void visit_row_loss(const RowLossProblem& problem, Visit&& visit) {
  switch (problem.kind) {
    case RowLossKind::kMse:
      return visit(SquaredError{});
    case RowLossKind::kBceWithLogits:
      return visit(BinaryCrossEntropy{});
    case RowLossKind::kMultiMargin:
      return visit(Hinge{problem.margin, problem.p});
  }
}

using RowLossImpl = LossImpl<RowLossProblem>;
using RowLossImpls = std::vector<ImplEntry<RowLossProblem>>;

const LayerType& mse_type();
const LayerType& bce_with_logits_type();
const LayerType& multi_margin_type();

RowLossImpls& mse_impls();
RowLossImpls& bce_with_logits_impls();
RowLossImpls& multi_margin_impls();

}  // namespace duet
