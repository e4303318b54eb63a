#include "device/clock_monitor.h"

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <thread>

#include "device/device.h"
#include "device/gpu.h"

namespace duet {
namespace {

// The few functions of NVML that are needed, as its API reference declares them; the header comes
// with the toolkit, the library with the driver, and neither need be there.
class Nvml {
 public:
  Nvml() : library_(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (!library_) return;
    int (*init)() = nullptr;
    int (*by_bus_id)(const char*, void**) = nullptr;
    const bool whole = find("nvmlInit_v2", &init) &&
                       find("nvmlDeviceGetHandleByPciBusId_v2", &by_bus_id) &&
                       find("nvmlDeviceGetClockInfo", &clock_) &&
                       find("nvmlDeviceGetTemperature", &temperature_) &&
                       find("nvmlDeviceGetCurrentClocksThrottleReasons", &reasons_) &&
                       find("nvmlSystemGetDriverVersion", &version_);
    const std::string bus_id = gpu::pci_bus_id();
    usable_ = whole && !bus_id.empty() && init() == 0 && by_bus_id(bus_id.c_str(), &device_) == 0;
  }

  explicit operator bool() const { return usable_; }

  struct Sample {
    unsigned mhz = 0, celsius = 0;
    unsigned long long reasons = 0;
  };
  bool sample(Sample* s) const {
    constexpr int kSmClock = 1, kGpuSensor = 0;
    return clock_(device_, kSmClock, &s->mhz) == 0 &&
           temperature_(device_, kGpuSensor, &s->celsius) == 0 &&
           reasons_(device_, &s->reasons) == 0;
  }
  std::string version() const {
    char text[80] = "";
    return usable_ && version_(text, sizeof text) == 0 ? text : "";
  }

 private:
  template <class Function>
  bool find(const char* name, Function* function) {
    *function = reinterpret_cast<Function>(dlsym(library_, name));
    return *function != nullptr;
  }

  void* library_;
  void* device_ = nullptr;
  bool usable_ = false;
  int (*clock_)(void*, int, unsigned*) = nullptr;
  int (*temperature_)(void*, int, unsigned*) = nullptr;
  int (*reasons_)(void*, unsigned long long*) = nullptr;
  int (*version_)(char*, unsigned) = nullptr;
};

// Loaded once, and never unloaded.
const Nvml& nvml() {
  static const Nvml nvml;
  return nvml;
}

constexpr unsigned long long kIdle = 0x01;  // clocks are low then because nothing runs

// Bits of nvmlClocksThrottleReasons that mean: slower than it could be.
struct Reason {
  unsigned long long bit;
  const char* name;
};
constexpr Reason kReasons[] = {{0x04, "power cap"},
                               {0x08, "hardware slowdown"},
                               {0x20, "heat (driver)"},
                               {0x40, "heat (hardware)"},
                               {0x80, "power brake"}};

}  // namespace

struct ClockMonitor::Impl {
  mutable std::mutex mutex;
  std::condition_variable wake;
  bool done = false;
  ClockReport report;                    // without its reasons
  int slowed[std::size(kReasons)] = {};  // samples with that reason
  std::thread thread;

  Impl() : thread([this] { run(); }) {}
  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      done = true;
    }
    wake.notify_all();
    thread.join();
  }

  void run() {
    std::unique_lock lock(mutex);
    // Waits first: the driver's reasons are those of the last moments, before the monitor was
    // asked.
    while (!wake.wait_for(lock, std::chrono::milliseconds(250), [this] { return done; })) {
      Nvml::Sample sample;
      if (nvml().sample(&sample) && !(sample.reasons & kIdle)) add(sample);
    }
  }

  void add(const Nvml::Sample& sample) {
    const auto mhz = static_cast<int>(sample.mhz);
    report.sm_mhz_min = report.samples ? std::min(report.sm_mhz_min, mhz) : mhz;
    report.sm_mhz_max = std::max(report.sm_mhz_max, mhz);
    report.temperature_c_max = std::max(report.temperature_c_max, static_cast<int>(sample.celsius));
    ++report.samples;
    bool any = false;
    for (size_t i = 0; i < std::size(kReasons); ++i) {
      const bool has = (sample.reasons & kReasons[i].bit) != 0;
      slowed[i] += has;
      any |= has;
    }
    report.slowed_samples += any;
  }

  ClockReport with_reasons() const {
    ClockReport result = report;
    for (size_t i = 0; i < std::size(kReasons); ++i) {
      if (slowed[i] == 0) continue;
      result.reasons.push_back(kReasons[i].name + (" in " + std::to_string(slowed[i])) + " of " +
                               std::to_string(report.samples) + " samples");
    }
    return result;
  }
};

ClockMonitor::ClockMonitor() {
  if (gpu_available() && nvml()) impl_ = std::make_unique<Impl>();
}
ClockMonitor::~ClockMonitor() = default;

ClockReport ClockMonitor::report() const {
  if (!impl_) return {};
  const std::lock_guard lock(impl_->mutex);
  return impl_->with_reasons();
}

std::string driver_version() { return gpu_available() ? nvml().version() : ""; }

}  // namespace duet
