// Ports: tensors that passes hand to each other besides x, y, w and their gradients.
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
  /// Both sides must have the same description. A pass that takes any has an empty shape.
  TensorDesc desc = {};
  /// For kTakes: true if taking the port saves more time than leaving it costs, at measured sizes.
  bool pays = true;
};

/// A port of so many bytes whose format only the passes that leave and take it know.
inline TensorDesc opaque(size_t bytes) { return {{static_cast<int64_t>(bytes)}, DType::kUInt8}; }

}  // namespace duet
