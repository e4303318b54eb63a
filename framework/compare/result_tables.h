// The tables of a comparison's results, as text in cells: the report and the Markdown page show
// these same tables. The schema of the results is in docs/benchmarking.md; any part of them may be
// missing, and a table without rows says that nothing of it was measured.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace duet {

enum class Tone { kPlain, kGood, kBad };

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;
};

struct Column {
  std::string name;
  bool number = true;  // numbers stand at the right, words at the left
};

struct ResultTable {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as `columns`
};

/// A number that sums up much of the results, for instance the step's speedup at one batch size.
struct Figure {
  std::string label, value, note;
  Tone tone = Tone::kPlain;
};
std::vector<Figure> key_figures(const nlohmann::json& results);

// ---- layers: of one entry of results["layers"] ----

/// A row for each layer and pass: time of each arm, floor and share of it, speedups and verdicts.
ResultTable layer_table(const nlohmann::json& results, const nlohmann::json& batch);
/// A row for each layer, pass and arm: implementation, workspace, all times and rates.
ResultTable layer_detail_table(const nlohmann::json& results, const nlohmann::json& batch);
/// A row for each layer, pass, arm and tensor: its errors against the reference in double.
ResultTable error_table(const nlohmann::json& results, const nlohmann::json& batch);
/// A row for each arm: of all its tensors the one nearest to its limit, or beyond it.
ResultTable worst_error_table(const nlohmann::json& results, const nlohmann::json& batch);
/// A row for each layer and pass: the error of one arm over that of another.
ResultTable error_ratio_table(const nlohmann::json& results, const nlohmann::json& batch);
/// A row for each layer and pass whose arithmetic was counted: its intensity and each arm's rates.
ResultTable roofline_table(const nlohmann::json& results, const nlohmann::json& batch);
/// A row for each arm: the step, the sum of all rows alone and in the network, the gap.
ResultTable totals_table(const nlohmann::json& results, const nlohmann::json& batch);
/// A row for each layer and pass: the problem, and the command that measures it again.
ResultTable repeat_table(const nlohmann::json& batch);
/// Everything wrong that was found, at all batch sizes.
ResultTable fault_table(const nlohmann::json& results);
/// A row for each pair of arms. `ratios` as in results["layers"][i]["step_ratios"].
ResultTable ratio_table(const nlohmann::json& results, const nlohmann::json& ratios);

// ---- the network as a whole ----

/// A row for each arm: speed, memory, loss and accuracy over the seeds.
ResultTable training_table(const nlohmann::json& results);
/// A row for each arm and seed.
ResultTable seed_table(const nlohmann::json& results);
/// A row for each pair of arms: how far they part.
ResultTable difference_table(const nlohmann::json& results);
/// A row for each step: the loss of each arm and their differences.
ResultTable loss_table(const nlohmann::json& results);
/// A row for each batch size: times, images per second and verdicts. `what` is "training" or
/// "inference".
ResultTable throughput_table(const nlohmann::json& results, const std::string& what);
/// A row for each arm that could not run at some batch size, and why.
ResultTable not_run_table(const nlohmann::json& results);
/// The layers of one arm, its implementations and what the libraries chose.
ResultTable arm_network_table(const nlohmann::json& arm);
/// The machine, the versions, the ceilings measured and what the clocks did.
ResultTable environment_table(const nlohmann::json& results);

}  // namespace duet
