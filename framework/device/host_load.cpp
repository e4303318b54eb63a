#include "device/host_load.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace duet {
namespace {

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double cpu_seconds(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double share(double part, double rest) {
  return part > 0 && part + rest > 0 ? part / (part + std::max(rest, 0.0)) : 0;
}

}  // namespace

HostLoad::HostLoad() : start_(take()) {}

HostLoad::Sample HostLoad::take() {
  Sample sample;
  std::ifstream stat("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft_irq = 0, steal = 0;
  if (stat >> name >> user >> nice >> system >> idle >> io >> irq >> soft_irq >> steal) {
    const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    sample.busy = (user + nice + system + irq + soft_irq + steal) / ticks;
    sample.idle = (idle + io) / ticks;
  }
  sample.own = cpu_seconds(RUSAGE_SELF) + cpu_seconds(RUSAGE_CHILDREN);
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; at != end;
       at.increment(error)) {
    double ran = 0, waited = 0;  // nanoseconds
    std::ifstream(at->path() / "schedstat") >> ran >> waited;
    const long id = std::strtol(at->path().filename().c_str(), nullptr, 10);
    sample.threads[id] = {1e-9 * ran, 1e-9 * waited};
  }
  return sample;
}

LoadReport HostLoad::between(const Sample& start, const Sample& end) {
  const double busy = end.busy - start.busy, idle = end.idle - start.idle;
  LoadReport report;
  if (!(busy + idle > 0)) return report;
  report.known = true;
  const double others = std::max(busy - (end.own - start.own), 0.0);
  report.others_share = std::min(others / (busy + idle), 1.0);
  Thread all;
  for (const auto& [id, thread] : end.threads) {
    const auto before = start.threads.find(id);
    const bool is_new = before == start.threads.end();
    all.ran += thread.ran - (is_new ? 0 : before->second.ran);
    all.waited += thread.waited - (is_new ? 0 : before->second.waited);
  }
  report.waited_share = share(all.waited, all.ran);
  return report;
}

LoadReport HostLoad::report() const {
  LoadReport report = between(start_, take());
  if (!report.known) return report;
  report.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  double average = 0;
  if (getloadavg(&average, 1) == 1) report.load_average = average;
  return report;
}

}  // namespace duet
