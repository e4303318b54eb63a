// What Nsight Compute says of kernels, as `ncu --csv` prints it.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace duet {

/// One launch of a kernel, and its metrics by their names.
struct ProfiledKernel {
  std::string name;
  std::map<std::string, double> metrics;
  std::string ranges;  // those that it was launched in, as ncu prints them; empty without --nvtx
};

/// The launches in `text`, in their order. What else is printed there is passed over, and so is a
/// metric that has no number.
std::vector<ProfiledKernel> read_ncu_csv(const std::string& text);

/// Those of `kernels` that were launched in the range of this name.
std::vector<ProfiledKernel> kernels_in(const std::string& range,
                                       const std::vector<ProfiledKernel>& kernels);

/// What passed between the GPU's memory and its L2 cache.
inline constexpr const char *kDramRead = "dram__bytes_read.sum",
                            *kDramWritten = "dram__bytes_write.sum";
/// Over all launches; 0 where it was not counted.
double sum_of_metric(const std::vector<ProfiledKernel>& launches, const std::string& metric);

/// The metrics that bound_by() reads, as --metrics takes them.
std::string bound_metrics();
/// What bounds the launch that took longest: "DRAM, 91% of its peak", or where no unit comes to 60% of its
/// peak, as in Nsight Compute's own rule, "latency: warps wait for loads from memory; ...". Of several
/// launches it is named. Behind it the bytes that all launches moved, beside the least that must move:
/// "; DRAM moves 1.02 times the least bytes". Empty if there is no launch, or its metrics are missing.
std::string bound_by(const std::vector<ProfiledKernel>& launches, double least_bytes);

}  // namespace duet
