// The rows of bench: each problem and pass examined and timed, in this process.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "compare/bench.h"
#include "compare/bench_selection.h"

namespace duet {

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
  bool child = false;  // of a process that measures the rest in another one where this ends
};

/// Is told, in this order, {"results": all keys of the results but "rows"}; of each row {"begins":
/// {"work", "problem", "ids"}} and {"row": ...}; and {"results": ...} once more.
using BenchSink = std::function<void(const nlohmann::json& message)>;

/// Throws what ends the measuring; in a child, a DeviceLostError also where an implementation left
/// behind what nobody can undo.
/// REQUIRES: an InterruptGuard.
void measure_rows(const std::vector<ProblemSelection>& selections, const BenchOptions& options,
                  Device device, const BenchPart& part, const BenchSink& sink);

}  // namespace duet
