#include "compare/small_comparison.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "apps/trainer_process.h"

namespace duet {

namespace fs = std::filesystem;

ComparisonFolder::ComparisonFolder() {
  std::string name = (fs::temp_directory_path() / "duet-compare-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
  path_ = name;
  write("tiny.yaml", {});
}

ComparisonFolder::~ComparisonFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void ComparisonFolder::write(
    const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& changes) const {
  std::string text = kTinyNetwork;
  for (const auto& [from, to] : changes) {
    const size_t at = text.find(from);
    if (at == std::string::npos) {
      ADD_FAILURE() << "no '" << from << "' in the network";
      continue;
    }
    text.replace(at, from.size(), to);
  }
  std::ofstream(path_ / name) << text;
}

ArmsOptions ComparisonFolder::options(const std::vector<std::string>& requests) const {
  return {.config = path("tiny.yaml").string(), .requests = requests};
}

SmallComparison::SmallComparison(const std::vector<std::string>& requests,
                                 const std::vector<std::string>& assignments) {
  ArmsOptions options = folder.options(requests);
  options.assignments = assignments;
  arms = read_arms(options);
  dataset = arms[0].setup().dataset.load({});
  for (const Arm& arm : arms) running.push_back(std::make_unique<RunningArm>(arm, dataset));
}

}  // namespace duet
