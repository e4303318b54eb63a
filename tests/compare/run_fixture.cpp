#include "compare/run_fixture.h"

#include <nlohmann/json.hpp>

namespace duet {

using nlohmann::json;

void write_run_fixture(const TemporaryFolder& folder, const std::filesystem::path& name,
                       int epochs) {
  const json pass = {{"pass", "forward"},
                     {"implementation", "cpu_blas"},
                     {"shared", false},
                     {"workspace_bytes", 1024},
                     {"detail", "the detail"}};
  folder.write(name / "run.json",
               json({{"name", "made_up"},
                     {"duet", "0.1.0 (1234567)"},
                     {"versions", {{"cuDNN", "9.1.0"}}},
                     {"device", "cpu"},
                     {"backend", "cpu"},
                     {"seed", 18446744073709551615u},
                     {"dataset", {{"name", "fashion_mnist"}, {"source", "/data/fashion"}}},
                     {"parameters", 61706},
                     {"memory_bytes", 1048576},
                     {"startup_seconds", 0.25},
                     {"changes", {"at step 8: seed: 1 -> 2"}},
                     {"layers",
                      {{{"name", "conv1"},
                        {"type", "conv2d"},
                        {"problem", "n=64"},
                        {"output", "64x6x28x28"},
                        {"parameters", 156},
                        {"passes", {pass}}}}}})
                   .dump());
  folder.write(name / "config.yaml", "name: made_up\nseed: 1\n");
  std::string metrics;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    for (int step = 2 * epoch - 1; step <= 2 * epoch; ++step) {
      metrics += json({{"event", "step"},
                       {"epoch", epoch},
                       {"step", 100 * step},
                       {"loss", 2.0 / step},
                       {"learning_rate", 0.01 / step},
                       {"images_per_second", 1000}})
                     .dump() +
                 "\n";
    }
    metrics += json({{"event", "epoch"},
                     {"epoch", epoch},
                     {"train_loss", 1.0 / epoch},
                     {"train_accuracy", 1 - 0.5 / epoch},
                     {"val_loss", 1.25 / epoch},
                     {"val_accuracy", 1 - 0.6 / epoch},
                     {"learning_rate", 0.005 / epoch},
                     {"images_per_second", 1000},
                     {"seconds", 12},
                     {"evaluation_seconds", 1}})
                   .dump() +
               "\n";
  }
  folder.write(name / "metrics.jsonl", metrics);
  json classes = json::array();
  const std::vector<std::string> names = {"Coat", "Bag", "</script><b>&"};
  const json matrix = {{8, 1, 1}, {0, 10, 0}, {4, 0, 6}};
  const int predicted[] = {12, 11, 7};
  for (size_t i = 0; i < 3; ++i) {
    const double right = matrix[i][i];
    classes.push_back({{"class", i},
                       {"name", names[i]},
                       {"images", 10},
                       {"predicted", predicted[i]},
                       {"precision", right / predicted[i]},
                       {"recall", right / 10}});
  }
  folder.write(name / "evaluation.json", json({{"epoch", epochs},
                                               {"val_loss", 1.25 / epochs},
                                               {"val_accuracy", 0.8},
                                               {"images", 30},
                                               {"classes", classes},
                                               {"confusion", matrix}})
                                             .dump());
}

}  // namespace duet
