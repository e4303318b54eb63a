// A folder with a network small enough to be compared in a test.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "compare/arms.h"

namespace duet {

class ComparisonFolder {
 public:
  /// Holds tiny.yaml: 620 parameters, 64 + 32 images of 8x8, batch 16, 2 epochs.
  ComparisonFolder();
  ~ComparisonFolder();
  ComparisonFolder(const ComparisonFolder&) = delete;
  ComparisonFolder& operator=(const ComparisonFolder&) = delete;

  std::filesystem::path path(const std::string& name) const { return path_ / name; }
  /// The same network with parts of its text replaced.
  void write(const std::string& name,
             const std::vector<std::pair<std::string, std::string>>& changes) const;
  ArmsOptions options(const std::vector<std::string>& requests) const;

 private:
  std::filesystem::path path_;
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
