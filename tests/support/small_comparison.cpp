#include "support/small_comparison.h"

#include "support/text.h"
#include "support/trainer_process.h"

namespace duet {

void ComparisonFolder::write(
    const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& changes) const {
  TemporaryFolder::write(name, changed(kTinyNetwork, changes));
}

ArmsOptions ComparisonFolder::options(const std::vector<std::string>& requests) const {
  return {.config = *this / "tiny.yaml", .requests = requests};
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
