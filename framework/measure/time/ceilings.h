// What the machine at hand can do at most, measured in the same run as what is compared with it.
#pragma once

#include <optional>
#include <string>

#include "device/context.h"
#include "layers/layer.h"

namespace duet {

struct Fault;
struct PassMeasurement;

struct Ceilings {
  double copy_bytes_per_second = 0;  // read and written, of a copy too large for any cache
  double fp32_flops_per_second = 0;  // GPU: chains of fused multiply-adds; CPU: OpenBLAS's sgemm
  double tf32_flops_per_second = 0;  // GPU: cuBLAS, 8192 x 8192 x 8192; 0 on the CPU
  double launch_seconds = 0;         // one more empty kernel in a graph; 0 on the CPU

  /// Of products with that arithmetic.
  double flops_per_second(Math math) const {
    if (math == Math::kBF16) return 0;  // not measured
    return math == Math::kFP32 ? fp32_flops_per_second : tf32_flops_per_second;
  }
};

/// Takes about a second on the context's device, which must be idle.
Ceilings measure_ceilings(Context& context);

/// Bytes that a pass must move by its definition: each tensor that it reads or writes, once. Forward
/// reads x and all parameters, and writes y; a backward pass reads dy, what Layer::saved() says, and
/// for dx the weight, and writes dx, or the gradients of all parameters, or both. What implementations
/// keep for themselves (an argmax) is left out.
double least_bytes(const Layer& layer, Pass pass);

/// The time below which `pass` cannot be computed from and to memory by its definition: the longer
/// of its products and its bytes (least_bytes). An implementation can be faster for two reasons:
/// arithmetic that avoids products (Winograd), and data that is still in the caches. Nothing where
/// the products' rate is not known: the CPU's of tf32, and any of bf16.
std::optional<double> floor_seconds(const Ceilings& ceilings, const Layer& layer, Pass pass);

/// The time below which no measurement of `pass` can be right; 0 where nothing is known of
/// `device`.
/// - A tenth of what its products take at the machine's rate: Winograd's F(6x6, 3x3), which rounds
///   more than any limit allows, multiplies 5 times less than the definition.
/// - What its bytes take at 10 times the rate of a copy on a GPU, 100 times on a CPU: an H200's L2
///   cache is 2 to 3 times as fast as its memory, the first caches of a CPU's cores together are 20
///   to 60 times as fast.
/// - On a GPU half of an empty kernel.
double least_seconds(const Ceilings& ceilings, Device device, const Layer& layer, Pass pass);

/// A fault in words for a time below what is possible at all (least_seconds()): "takes 0.01 us,
/// ...". `what` is what takes it.
Fault impossible_time(const std::string& what, double seconds, double least);
/// Gives a measurement that is below `least` that fault, and no times.
void refuse_impossible_times(PassMeasurement& measurement, double least);

namespace gpu {
/// The GPU's part; ceilings.cu.
Ceilings measure_ceilings(Context& context);
}  // namespace gpu

}  // namespace duet
