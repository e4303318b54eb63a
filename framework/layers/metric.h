// What the metrics share: measures of what a network makes against targets, by which nothing is
// trained.
//
// Of two tensors:
//   x[0]  outputs of the network, N first       y[0]  {2}, float32 (float64 of double): the sum of
//   x[1]  targets, of the shape of x[0]               the metric over the rows that count, and the
//   x[2]  rows, as rows_desc()                        number of those rows
// Of labels (Layer::takes_labels), as the losses of labels that take positions (layers/loss.h):
//   x[0]  outputs of the network, N x C         y[0]  the same
//         or N x T x C, of N * T rows
//   x[1]  labels
//
// A row counts if its entry of `rows` is not negative, or its label is a class. The value for a data
// set is the sum over its batches divided by the number of its rows. No input has a gradient.
#pragma once

#include "layers/layer.h"

namespace duet {

/// The passes of a metric.
inline const std::vector<Pass>& forward_alone() {
  static const std::vector<Pass> passes = {Pass::kForward};
  return passes;
}

/// The two totals of a metric of what is stored in `dtype`.
inline std::vector<TensorDesc> metric_outputs(DType dtype) {
  return {TensorDesc{{2}, accumulator_of(dtype)}};
}

/// Of two tensors.
template <class P>
class MetricImpl : public ImplementationOf<P> {
 public:
  using ImplementationOf<P>::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& targets, const Tensor& rows,
                       const Tensor& totals) = 0;

  void run(Pass, const Run& run, const LayerTensors& t) final {
    forward(run, t.x[0], t.x[1], t.x[2], t.y[0]);
  }
};

}  // namespace duet
