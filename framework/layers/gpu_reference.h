// The reference in double on a GPU, for problems that take a CPU minutes: custom_naive of conv2d and
// linear, compiled for double, and with it the parts of conv2d_pool_relu and linear_relu one after the
// other. Only these layers, which multiply most, have one. Tests hold each to cpu_reference in double
// (tests/measure/gpu_reference_gpu_test.cpp). No list has them: nobody can name, train or time them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// True if this build has such a reference for the type of `layer`. Whether there is a GPU is
/// another matter.
bool has_gpu_reference(const Layer& layer);

/// The reference of `layer`, which computes in double. REQUIRES: has_gpu_reference(layer), and
/// `layer` is bound to float64 (in_double()).
std::unique_ptr<Implementation> make_gpu_reference(const Layer& layer);

/// True if a double reference of a pass of so many operations (Layer::flops) should run on a GPU:
/// there is one, and the CPU would take long enough for it to matter.
bool worth_a_gpu(double flops);

/// A tensor in double. REQUIRES: as many values.
struct DoubleTensor {
  TensorDesc desc;
  const std::vector<double>& values;
};

/// What a layer's reference in double makes of x and its parameters: on a GPU if that is worth_a_gpu()
/// and has the memory. `make` gives the reference on the context's device.
std::vector<double> forward_in_double(
    double flops, const std::function<std::unique_ptr<Implementation>(Context&)>& make,
    const DoubleTensor& x, const std::vector<DoubleTensor>& w, const TensorDesc& y);

}  // namespace duet
