// What else this machine's cores do while something is measured.
#pragma once

#include <map>

namespace duet {

struct LoadReport {
  bool known = false;  // whether the system tells; the rest is 0 otherwise
  int cores = 0;       // of the machine
  /// Of all that the cores could have done: what other processes, or other machines on the same
  /// hardware, took.
  double others_share = 0;
  /// Of the time in which threads of this process could have run: what they waited for a core.
  double waited_share = 0;
  double load_average = 0;  // of the last minute
};

/// From /proc, since it was made. Children of this process that have ended are not others.
class HostLoad {
 public:
  HostLoad();
  LoadReport report() const;

  struct Thread {
    double ran = 0, waited = 0;
  };
  /// Sums since the machine, the process or the thread started, in seconds.
  struct Sample {
    double busy = 0, idle = 0, own = 0;
    std::map<long, Thread> threads;  // those that live, by their ids
  };
  static Sample take();
  /// What happened between two samples; `cores` and `load_average` are left as they are.
  static LoadReport between(const Sample& start, const Sample& end);

 private:
  const Sample start_;
};

}  // namespace duet
