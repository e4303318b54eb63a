// A folder with a network small enough to be compared in a test.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "compare/arms.h"
#include "support/temporary_folder.h"

namespace duet {

class ComparisonFolder : public TemporaryFolder {
 public:
  /// Holds tiny.yaml: kTinyNetwork (support/trainer_process.h).
  ComparisonFolder() { write("tiny.yaml", {}); }

  /// The same network with parts of its text replaced.
  void write(const std::string& name,
             const std::vector<std::pair<std::string, std::string>>& changes) const;
  ArmsOptions options(const std::vector<std::string>& requests) const;
};

/// Arms on the CPU with everything they need in memory.
struct SmallComparison {
  /// `assignments` are for every arm.
  explicit SmallComparison(const std::vector<std::string>& requests,
                           const std::vector<std::string>& assignments = {});

  ComparisonFolder folder;
  std::vector<Arm> arms;
  Dataset dataset;
  RunningArms running;
};

}  // namespace duet
