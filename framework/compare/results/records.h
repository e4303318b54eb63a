// What was measured, as results hold it.
#pragma once

#include <string>
#include <vector>

#include "compare/measure/network_check.h"
#include "compare/results/results.h"
#include "device/clock_monitor.h"
#include "device/host_load.h"
#include "measure/time/ceilings.h"
#include "measure/time/timing.h"

namespace duet {

Timing timing_of(const Summary& seconds);
ArmRatio ratio_of(size_t a, size_t b, const Times& times_a, const Times& times_b);
/// The first arm against each of the others. times[i] is arm i's, or nullptr if it was not
/// measured.
ArmRatios ratios_of(const std::vector<const Times*>& times);
StepFaults faults_of(const std::vector<NetworkFault>& faults);
/// With the workspaces and what the libraries chose.
std::vector<ArmRecord> records_of(const RunningArms& arms);
/// The machine, the libraries and Duet's version.
EnvironmentRecord environment_record();
CeilingRates rates_of(const Ceilings& ceilings, Device device);
Ceilings ceilings_of(const CeilingRates& rates);
/// Nothing where there are no samples.
std::optional<ClockRecord> record_of(const ClockReport& report);
/// Nothing where the system does not tell.
std::optional<LoadRecord> record_of(const LoadReport& report);

/// Of two processes that measured one after the other: all samples, and the busier load.
std::optional<ClockRecord> both(const std::optional<ClockRecord>& a,
                                const std::optional<ClockRecord>& b);
std::optional<LoadRecord> both(const std::optional<LoadRecord>& a,
                               const std::optional<LoadRecord>& b);

/// "2026-11-21T12:00:00Z"
std::string now_text();

}  // namespace duet
