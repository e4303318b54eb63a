// The reference in double on a GPU, for problems that take a CPU minutes. Only the layers that
// multiply most have one: conv2d, linear and conv2d_pool_relu. Each computes what cpu_reference
// computes in double, and tests hold it to that (tests/measure/gpu_reference_gpu_test.cpp). These
// implementations are in no list: nobody can name, train or time them.
#pragma once

#include <memory>

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

}  // namespace duet
