// Losses of a tensor x and targets t of its shape, which are constants: their gradient is not
// computed. They share one problem and every implementation, and are layer types with lists of
// their own. The outputs are those of layers/loss.h; with d = x - t the loss is the mean of l over
// the elements of the rows that count, and dx = dy * dl/dx / (elements of a row * rows that count):
//   mse_loss          l = d^2, as torch.nn.functional.mse_loss. No keys.
//   l1_loss           l = |d|, as torch.nn.functional.l1_loss; the gradient at 0 is 0. No keys.
//   charbonnier_loss  l = sqrt(d^2 + eps^2) (Charbonnier et al. 1994), |d| with a smooth bottom.
//                     Keys: eps 1e-3.
//   binary_cross_entropy_loss
//                     l = log(1 + exp(x)) - t * x of logits x and probabilities t, as
//                     torch.nn.BCEWithLogitsLoss. That t is in [0, 1] is not checked. No keys.
#pragma once

#include <cmath>

#include "core/host_device.h"
#include "layers/loss.h"

namespace duet {

enum class PairLossKind { kMse, kL1, kCharbonnier, kBinaryCrossEntropy };

struct PairLossProblem {
  PairLossKind kind = PairLossKind::kMse;
  TensorDesc x;  // and the targets
  DType dtype = DType::kFloat32;
  double eps = 0.0;  // kCharbonnier

  int64_t rows() const { return x.shape[0]; }
  int64_t row_elements() const { return x.elements() / rows(); }
  std::string to_string() const;
};

/// l and dl/dx of x and t of each kind as a type, so that kernels are compiled for it. NaN stays.
struct SquaredDifference {
  template <class V>
  DUET_HOST_DEVICE V value(V x, V t) const {
    return (x - t) * (x - t);
  }
  template <class V>
  DUET_HOST_DEVICE V slope(V x, V t) const {
    return V(2) * (x - t);
  }
};
struct AbsoluteDifference {
  template <class V>
  DUET_HOST_DEVICE V value(V x, V t) const {
    return std::abs(x - t);
  }
  template <class V>
  DUET_HOST_DEVICE V slope(V x, V t) const {
    const V d = x - t;
    return d > V(0) ? V(1) : d < V(0) ? V(-1) : d;
  }
};
struct CharbonnierDifference {
  double eps;

  /// By hypot, whose squares do not overflow.
  template <class V>
  DUET_HOST_DEVICE V value(V x, V t) const {
    return std::hypot(x - t, static_cast<V>(eps));
  }
  template <class V>
  DUET_HOST_DEVICE V slope(V x, V t) const {
    return (x - t) / value(x, t);
  }
};
struct LogitDifference {
  /// log(1 + exp(x)) is max(x, 0) + log(1 + exp(-|x|)), which does not overflow; x and x * t are not
  /// both large where their difference is small.
  template <class V>
  DUET_HOST_DEVICE V value(V x, V t) const {
    const V linear = x <= V(0) ? -x * t : x * (V(1) - t);
    return linear + std::log1p(std::exp(-std::abs(x)));
  }
  /// sigmoid(x) - t, by the sigmoids of both x and -x: at t = 1 the difference keeps its digits.
  template <class V>
  DUET_HOST_DEVICE V slope(V x, V t) const {
    const V small = std::exp(-std::abs(x));
    const V of_large = V(1) / (V(1) + small), of_small = small / (V(1) + small);
    return x <= V(0) ? (V(1) - t) * of_small - t * of_large : (V(1) - t) * of_large - t * of_small;
  }
};

/// Calls visit(term) with the function object of `problem`.
template <class Visit>
void visit_pair_loss(const PairLossProblem& problem, Visit&& visit) {
  switch (problem.kind) {
    case PairLossKind::kMse:
      return visit(SquaredDifference{});
    case PairLossKind::kL1:
      return visit(AbsoluteDifference{});
    case PairLossKind::kCharbonnier:
      return visit(CharbonnierDifference{problem.eps});
    case PairLossKind::kBinaryCrossEntropy:
      return visit(LogitDifference{});
  }
}

class PairLossImpl : public ImplementationOf<PairLossProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
                       const Tensor& loss, const Tensor& hits) = 0;
  /// `hits` is forward's second output, whose second entry is the number of counted rows.
  virtual void backward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
                        const Tensor& hits, const Tensor& dloss, const Tensor& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.x[1], t.x[2], t.y[0], t.y[1]);
    } else if (t.dx[0]) {
      backward(run, t.x[0], t.x[1], t.x[2], t.y[1], t.dy[0], t.dx[0]);
    }
  }
};
using PairLossImpls = std::vector<ImplEntry<PairLossProblem>>;

const LayerType& binary_cross_entropy_loss_type();
const LayerType& charbonnier_loss_type();
const LayerType& l1_loss_type();
const LayerType& mse_loss_type();

}  // namespace duet
