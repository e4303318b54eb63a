#include "measure/time/ceilings.h"

#include <cblas.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <vector>

#include "core/number_text.h"
#include "core/parallel.h"
#include "core/single_threaded_blas.h"
#include "measure/time/measure_pass.h"

namespace duet {
namespace {

constexpr int kTries = 5;

double best_seconds(Context& context, const std::function<void()>& work) {
  work();
  return least_seconds_of(context, work, kTries);
}

double cpu_copy(Context& context) {
  constexpr int64_t kBytes = int64_t{256} << 20, kPart = int64_t{4} << 20;
  const Buffer from(Device::kCpu, kBytes), to(Device::kCpu, kBytes);
  std::memset(from.data(), 1, kBytes);
  const double seconds = best_seconds(context, [&] {
    parallel_for(kBytes / kPart, kBytes, [&](int64_t i) {
      std::memcpy(to.at(static_cast<size_t>(i * kPart)), from.at(static_cast<size_t>(i * kPart)),
                  kPart);
    });
  });
  return 2.0 * kBytes / seconds;
}

// One product for every thread, as the layers use BLAS.
double cpu_products(Context& context) {
  constexpr int kSize = 512;
  const SingleThreadedBlas single;
  const int threads = cpu_threads();
  std::vector<float> a(kSize * kSize, 0.5f), b = a;
  std::vector<std::vector<float>> c(static_cast<size_t>(threads), a);
  const double flops = 2.0 * kSize * kSize * kSize * threads;
  const double seconds = best_seconds(context, [&] {
    parallel_for(threads, static_cast<int64_t>(flops), [&](int64_t i) {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, kSize, kSize, kSize, 1.0f, a.data(),
                  kSize, b.data(), kSize, 0.0f, c[static_cast<size_t>(i)].data(), kSize);
    });
  });
  return flops / seconds;
}

double bytes_of(const std::vector<TensorDesc>& tensors) {
  double bytes = 0;
  for (const TensorDesc& tensor : tensors) bytes += static_cast<double>(tensor.bytes());
  return bytes;
}

}  // namespace

Ceilings measure_ceilings(Context& context) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) return gpu::measure_ceilings(context);
#endif
  return {.copy_bytes_per_second = cpu_copy(context),
          .fp32_flops_per_second = cpu_products(context)};
}

double least_bytes(const Layer& layer, Pass pass) {
  const auto& inputs = layer.inputs();
  const auto& outputs = layer.outputs();
  const bool sum = layer.is_sum();  // one y, and one dx, in memory
  const double x = bytes_of(inputs), dy = bytes_of(outputs);
  const double y = sum ? bytes_of({outputs[0]}) : dy;
  const double dx = sum || !layer.fields().empty() ? bytes_of({inputs[0]}) : x;
  double weight = 0, trained = 0, parameters = 0;
  for (const ParameterSpec& each : layer.parameters()) {
    const double bytes = bytes_of({each.desc});
    if (&each == &layer.parameters()[0] && each.trained()) weight = bytes;
    if (each.trained()) trained += bytes;
    parameters += bytes;
  }
  if (pass == Pass::kForward) return x + parameters + y;
  const SavedTensors saved = layer.saved(pass);
  return dy + (saved.x ? x : 0) + (saved.y ? y : 0) +
         (pass != Pass::kBackwardFilter ? weight + dx : 0) +
         (pass != Pass::kBackwardData ? trained : 0);  // dw
}

std::optional<double> floor_seconds(const Ceilings& ceilings, const Layer& layer, Pass pass) {
  const double products = layer.flops(pass);
  const double rate = ceilings.flops_per_second(layer.options().math);
  if (products > 0 && rate <= 0) return {};
  return std::max(products > 0 ? products / rate : 0.0,
                  least_bytes(layer, pass) / ceilings.copy_bytes_per_second);
}

double least_seconds(const Ceilings& ceilings, Device device, const Layer& layer, Pass pass) {
  if ((ceilings.launch_seconds > 0) != (device == Device::kGpu)) return 0;  // another device's
  constexpr double kFewerProducts = 10, kCacheOfGpu = 10, kCacheOfCpu = 100;
  const double rate = ceilings.flops_per_second(layer.options().math);
  const double copy = ceilings.copy_bytes_per_second;
  const double cache = device == Device::kGpu ? kCacheOfGpu : kCacheOfCpu;
  return std::max({rate > 0 ? layer.flops(pass) / rate / kFewerProducts : 0.0,
                   copy > 0 ? least_bytes(layer, pass) / copy / cache : 0.0,
                   ceilings.launch_seconds / 2});
}

Fault impossible_time(const std::string& what, double seconds, double least) {
  return {
      FaultKind::kImpossiblyFast,
      printed("takes %.3g us for %s, and nothing on this machine does that in less than %.3g us: "
              "it computes something else, and no time is given",
              1e6 * seconds, what.c_str(), 1e6 * least)};
}

void refuse_impossible_times(PassMeasurement& measurement, double least) {
  if (!measurement.warm || measurement.warm->summary().median >= least) return;
  measurement.examination.faults.push_back(
      impossible_time("this pass", measurement.warm->summary().median, least));
  measurement.warm.reset();
  measurement.cold.reset();
}

}  // namespace duet
