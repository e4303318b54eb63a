// The parts that plain_loops() is made of: types with weights, pooling, normalisation, softmax and the
// loss have a file each.
#pragma once

#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"
#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "layers/linear/linear.h"
#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"
#include "layers/softmax_dropout/softmax_dropout.h"
#include "plain_loops.h"
#include "plain_text.h"

namespace duet::plain {

/// An output that is stored in `dtype`, within `in_float` where that is float32.
PlainLoops::Output output(const std::string& name, int64_t terms, DType dtype,
                          double in_float = 2e-5);
/// The shortest text of a number.
std::string shortest(double value);
std::string shortest(float value);

PlainLoops conv2d(const Conv2dProblem& d, Pass pass);
PlainLoops linear(const LinearProblem& d, Pass pass);
PlainLoops linear_relu(const LinearProblem& d, Pass pass);
PlainLoops max_pool(const Pool2dProblem& d, Pass pass);
PlainLoops average_pool(const Pool2dProblem& d, Pass pass);
PlainLoops conv2d_pool_relu(const Conv2dPoolReluProblem& d, Pass pass);
PlainLoops batch_norm(const BatchNormProblem& d, Pass pass);
PlainLoops batch_norm_relu_pool(const BatchNormReluPoolProblem& d, Pass pass);
PlainLoops batch_norm_relu_softmax(const BatchNormReluSoftmaxProblem& d, Pass pass);
PlainLoops softmax(const TensorDesc& x, Pass pass);
PlainLoops softmax_cross_entropy(const SoftmaxCrossEntropyProblem& d, Pass pass);
/// Of masks that a library draws.
PlainLoops dropout(const DropoutProblem& d, Pass pass);
PlainLoops softmax_dropout(const SoftmaxDropoutProblem& d, Pass pass);

/// Sizes of a pooling, and functions that look for the largest value of a window of `x`; the sizes'
/// names begin with `prefix`.
std::string pool_sizes(const Pool2dProblem& d, const std::string& prefix);
std::string largest_of_window(const Pool2dProblem& d, const std::string& x,
                              const std::string& prefix);

}  // namespace duet::plain
