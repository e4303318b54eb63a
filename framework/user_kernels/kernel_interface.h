// What a file of kernels is given of a layer: its sizes as constants, and the tensors of each pass as
// arguments. Both follow from the layer, so that no layer type has to say anything for it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layers/layer.h"

namespace duet {

struct KernelConstant {
  std::string type, name, value;  // "int", "STRIDE_H", "2"
};

/// An argument of a pass: a pointer to the tensor's first element, or a null pointer where there is no
/// such tensor (no bias, a gradient that nobody needs).
struct KernelTensor {
  std::string name;  // "dx"
  std::vector<Tensor> LayerTensors::*list;
  std::optional<size_t> index;  // in the list; nothing: always null
  std::string type;             // of its elements: "T", "float", "int"
  bool written = false;
};

struct KernelInterface {
  std::vector<KernelConstant> constants;
  std::map<Pass, std::vector<KernelTensor>> passes;
};

/// Why a layer's passes cannot be given to kernels of a file, or nothing.
std::optional<std::string> no_kernel_interface(const Layer& layer);

/// REQUIRES: `layer` is bound, and there is no reason against it.
///
/// Constants: the words of problem_text() in capitals, by cuDNN's letters: n=64 is N = 64, stride=2x1
/// is STRIDE_H = 2 and STRIDE_W = 1, bias=true is BIAS = true. And of every layer: ELEMENTS of x, its
/// last axis as COLUMNS and the others together as ROWS; N, C and H, W; P, Q of y (Y_P, Y_Q
/// where the layer has others of these names); NHWC, and TF32.
///
/// Arguments, in this order:
///   forward          x, the parameters, y
///   backward         x, the parameters, y, dy, dx, the gradients of the parameters
///   backward_data    dy, w, dx                    of blocks: x, y, dy, w, dx
///   backward_filter  x, dy, dw, db                of blocks: x, y, dy, dw, db
/// Parameters are w, b and then buffers by their names, which forward may write.
KernelInterface kernel_interface(const Layer& layer);

/// "const float* x, float* y", with `stored` for the type of x and y.
std::string arguments_text(const std::vector<KernelTensor>& tensors, const std::string& stored);

}  // namespace duet
