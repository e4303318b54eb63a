// What a watch (lab/watch.h) says of a file's kernels, and keeps of them beside the file.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/results/results.h"
#include "user_kernels/compiled_kernels.h"
#include "user_kernels/kernel_file.h"

namespace duet {

/// A time that kernels are compared with at every save. It is measured once in a watch.
struct KeptTime {
  std::string problem, pass, id;
  std::string measured;    // when: now_text()
  std::vector<double> us;  // of each round
  double share_of_floor = kUnknown;
  void fields(auto& f) {
    f("problem", problem)("pass", pass)("id", id)("measured", measured)("us", us);
    f("share_of_floor", share_of_floor);
  }
};

/// Of an arm that was timed.
KeptTime kept_time(const BenchRow& row, const MeasuredArm& arm);
/// "  forward: cudnn_graph, 26.1 us, 30% of the floor's speed"
std::string kept_time_text(const KeptTime& time);

/// The times of a file's earlier sources, of one problem, pass and machine, in microseconds.
struct EarlierTimes {
  double last = kUnknown, best = kUnknown;
};

/// FILE.history.jsonl beside FILE.cu, a line for each result.
class KernelHistory {
 public:
  explicit KernelHistory(const KernelFile& file);
  EarlierTimes of(const BenchRow& row, const std::string& machine) const;
  /// What cannot be kept is told, and is no reason to stop: returns why, or "".
  std::string add(const nlohmann::json& entry) const;

 private:
  std::string text() const;

  const std::filesystem::path path_;
};

/// The time that it took, and what every launch takes.
std::string compiled_text(const CompiledKernels& made);

/// "right (12% of the limit), 84.1 us, 0.31x cudnn_graph (0.30 to 0.32; 26.1 us at 16:20:03), 9% of the
/// floor's speed, +4.2% since the last, best so far 80.0 us"; or "WRONG", what is wrong and where; or
/// why the row does not have the implementation.
std::string verdict_text(const BenchRow& row, const std::string& id,
                         const std::vector<KeptTime>& others, const EarlierTimes& earlier);
/// The row's arm of that implementation; nullptr if there is none.
const MeasuredArm* arm_of(const BenchRow& row, const std::string& id);

/// In the middle of what is told: four spaces before each line.
std::string indented(std::string text);

}  // namespace duet
