// What the losses share, of which a network in training has one or several.
//
// Of labels (Layer::takes_labels):
//   x[0]  outputs of the network, N x C        y[0]  loss, {1}: a mean over the rows that count
//   x[1]  labels, as labels_desc()             y[1]  int32 {2}: hits, which are rows whose largest
//                                                    output is the label's; rows that count
// A loss that takes positions has x[0] also as N x T x C, and x[1] as int32 {N, T}; its rows are
// then the N * T positions. Images N,C,H,W are refused: their classes would be the channels, which
// are not the last axis.
// Of two tensors (layers/pair_loss):
//   x[0]  outputs of the network, N first      y[0]  the same
//   x[1]  targets, of the shape of x[0]        y[1]  int32 {2}: 0, rows that count
//   x[2]  rows, as rows_desc()
//
// A row counts if its label is in 0 .. C-1, or its entry of `rows` is not negative; -1 marks rows
// to leave out (the padding of an epoch's last batch). Without a counted row the loss is 0. Of
// equal outputs the first is the largest; a row with a NaN is never a hit, and its NaN reaches the
// loss. dx is 0 in rows that do not count; targets are constants, without a gradient.
#pragma once

#include "core/mixed_labels.h"
#include "layers/layer.h"

namespace duet {

/// Of labels. `state` is what forward left for backward. No label, in or out of range, may lead to
/// an access out of bounds.
template <class P>
class LossImpl : public ImplementationOf<P> {
 public:
  using ImplementationOf<P>::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& loss,
                       const Tensor& hits, const Tensor& state) = 0;
  /// `hits` is forward's second output, whose second entry is the number of counted rows.
  virtual void backward(const Run& run, const Tensor& x, const Tensor& labels, const Tensor& hits,
                        const Tensor& dloss, const Tensor& state, const Tensor& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.x[1], t.y[0], t.y[1], t.state);
    } else if (t.dx[0]) {
      backward(run, t.x[0], t.x[1], t.y[1], t.dy[0], t.state, t.dx[0]);
    }
  }
};

/// The two outputs of a loss of what is stored in `dtype`.
std::vector<TensorDesc> loss_outputs(DType dtype);
/// Which shapes of labels a layer takes: those of rows N x C, or also mixed ones and those of the
/// positions of N x T x C.
enum class LabelShapes { kRows, kAll };
/// The shape rule of x and labels. Throws ShapeError.
void check_labels(const std::vector<TensorDesc>& inputs, LabelShapes allowed);

/// The key `ignore_class`: a label whose rows do not count, as those of label -1. kNoClass without
/// the key, which is not written back then.
int32_t read_ignored_class(ConfigReader& reader);

/// "n=64 c=10", or "x=64x16x10" of positions; the keys; and what it is stored in where that is not
/// float32.
std::string loss_text(const Shape& x, DType dtype, const std::string& keys = "");

}  // namespace duet
