// What passes hand to each other beside their layers' own tensors.
#pragma once

#include "core/tensor.h"

namespace duet {

/// Other forms of a layer's tensors, which one pass leaves where it has the values at hand anyway, so
/// that others need not make them. A network connects a port where a pass that leaves it and one that
/// takes it agree (net/ports.h); all others are falsy, and a pass then makes what it needs. A pass
/// writes the same bits with and without them, but that a normalisation rounds moments of x otherwise.
struct Ports {
  Tensor x_moments;  // mean and variance of x by channel, in training (core/channel_moments.h)
  Tensor y_moments;  // of y
  Tensor staged_x;   // in the order in which the layer's passes multiply it (a layer type's own)
  Tensor staged_dy;
  Tensor staged_w;
  Tensor prepared_w;  // what Implementation::prepare_weights() makes of the parameters
};
using Port = Tensor Ports::*;

/// A port that a pass can use.
struct PortUse {
  enum class Access { kTakes, kLeaves };

  Port port;
  Access access;
  /// What is left is taken by a pass that says the same; one that takes any leaves the shape empty.
  TensorDesc desc = {};
  /// Of who takes it: whether it gains more than leaving costs, by sizes at which both were measured.
  bool pays = true;
};

/// uint8, in a form that only those know who leave and take it.
inline TensorDesc opaque(size_t bytes) { return {{static_cast<int64_t>(bytes)}, DType::kUInt8}; }

}  // namespace duet
