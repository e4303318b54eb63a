// The GPU's clock, temperature and reasons to slow down while something is measured.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace duet {

struct ClockReport {
  int samples = 0;  // while the GPU was busy; 0: no GPU, or its driver does not tell
  int sm_mhz_min = 0, sm_mhz_max = 0;
  int temperature_c_max = 0;
  int slowed_samples = 0;  // those with any of the reasons
  /// "power cap in 2 of 671 samples": what made the GPU run slower than it could. Empty: nothing.
  std::vector<std::string> reasons;
};

/// Samples four times a second in a thread of its own, from NVML, which is loaded if it is there.
class ClockMonitor {
 public:
  ClockMonitor();
  ~ClockMonitor();
  ClockMonitor(const ClockMonitor&) = delete;
  ClockMonitor& operator=(const ClockMonitor&) = delete;

  /// Of all samples so far.
  ClockReport report() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The driver's version ("580.159.04"), or empty.
std::string driver_version();

}  // namespace duet
