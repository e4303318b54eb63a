// The rows of bench: each problem and pass examined and timed, in this process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/results/results.h"
#include "lab/bench.h"
#include "lab/bench_selection.h"

namespace duet {

/// What the reference makes of problems, kept for several measurements in one process.
class KeptReferences {
 public:
  /// Of these passes at least. REQUIRES: an InterruptGuard; the layer outlives this.
  const CheckData& of(const Layer& layer, const std::vector<Pass>& passes);

 private:
  struct Kept {
    std::vector<Pass> passes;
    CheckData check_data;
  };
  std::map<const Layer*, Kept> kept_;
};

/// What of all rows is measured; they are numbered in the order of the selections.
struct BenchPart {
  size_t first_row = 0;
  struct Only {
    size_t row;
    std::string id;
  };
  std::optional<Only> only;  // that implementation in that row
  struct Ended {
    size_t problem;  // in the order of the selections
    std::string id, text;
  };
  std::vector<Ended> ended;  // ended their process in that problem: they are not run again
  const Ended* find_ended(size_t problem, std::string_view id) const;
  std::optional<EnvironmentRecord> environment;  // with what processes before measured of it
  bool child = false;  // of a process that measures the rest in another one where this ends
  std::shared_ptr<KeptReferences> references = {};  // nullptr: they are forgotten after a problem
};

/// One of these is told, in this order: the results without rows; of each row that it begins, and
/// the row, with the results without rows.
struct BenchMessage {
  struct Begun {
    std::string work, pass;
    Count problem;  // in the order of the selections
    std::vector<std::string> ids;
    void fields(auto& f) { f("work", work)("pass", pass)("problem", problem)("ids", ids); }
  };
  std::optional<BenchResults> results = {};
  std::optional<Begun> begins = {};
  std::optional<BenchRow> row = {};
  void fields(auto& f) { f.maybe("results", results).maybe("begins", begins).maybe("row", row); }
};
using BenchSink = std::function<void(const BenchMessage& message)>;

/// Throws what ends the measuring; in a child, an UnusableProcessError also where an implementation left
/// behind what nobody can undo.
/// REQUIRES: an InterruptGuard.
void measure_rows(const std::vector<ProblemSelection>& selections, const BenchOptions& options,
                  Device device, const BenchPart& part, const BenchSink& sink);

}  // namespace duet
