// Batch normalisation folded into the convolution before it, for evaluation and prediction: there it
// is one multiplication and one addition a channel, which the convolution's weights and bias take up.
#pragma once

#include <string>
#include <vector>

#include "net/spec.h"
#include "net/weights.h"

namespace duet {

/// A network without the batch normalisations that its convolutions have taken up.
struct FoldedNet {
  /// Of a batch_norm2d and the conv2d that it was behind, by their names.
  struct Norm {
    std::string convolution, norm;
    double eps;
  };
  NetSpec spec;
  std::vector<Norm> norms;
};

/// Folds every batch_norm2d that reads the output of a conv2d, if nobody else reads it and the
/// batch_norm2d names no layout. The conv2d then has a bias, and keeps its name and its
/// implementations; what read the batch_norm2d reads it.
FoldedNet fold_norms(const NetSpec& spec);

/// Fills `to`, the weights of the folded network, from those of the network that was folded, in
/// evaluation: weight * s and (bias - running_mean) * s + norm's bias, with s = norm's weight /
/// sqrt(running_var + eps); in double, rounded once. All others are copied. Synchronous.
void fold_weights(const FoldedNet& net, const Weights& from, Weights& to);

}  // namespace duet
