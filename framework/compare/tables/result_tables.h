// The tables of a comparison's results. What was not measured is missing in them, and a table
// without rows says that nothing of it was measured.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "compare/results/results.h"
#include "compare/tables/result_table.h"

namespace duet {

/// A number that sums up much of the results, for instance the step's speedup at one batch size.
struct Figure {
  std::string label, value, note;
  Tone tone = Tone::kPlain;
};
std::vector<Figure> key_figures(const Results& results);
/// For a page: [{"label", "value", "note", "tone"}]
nlohmann::json figures_json(const std::vector<Figure>& figures);

// ---- layers: of one of results.layers ----

/// A row for each layer and pass: time of each arm, floor and share of it, speedups and verdicts.
ResultTable layer_table(const Results& results, const LayersSection& batch);
/// A row for each layer, pass and arm: all times and rates.
ResultTable rate_table(const Results& results, const LayersSection& batch);
/// The same rows: implementation, largest error, workspace and what the library chose.
ResultTable implementation_table(const Results& results, const LayersSection& batch);
/// A row for each layer, pass, arm and tensor: its errors against the reference in double.
ResultTable error_table(const Results& results, const LayersSection& batch);
/// A row for each arm: of all its tensors the one nearest to its limit, or beyond it.
ResultTable worst_error_table(const Results& results, const LayersSection& batch);
/// A row for each layer and pass: the error of one arm over that of another.
ResultTable error_ratio_table(const Results& results, const LayersSection& batch);
/// A row for each layer and pass whose arithmetic was counted: its intensity and each arm's rates.
ResultTable roofline_table(const Results& results, const LayersSection& batch);
/// A row for each arm: the step, the sum of all rows alone and in the network, the gap.
ResultTable totals_table(const Results& results, const LayersSection& batch);
/// A row for each layer and pass: the problem, and the command that measures it again.
ResultTable repeat_table(const LayersSection& batch);
/// Everything wrong that was found, at all batch sizes.
ResultTable fault_table(const Results& results);
/// A row for each pair of arms.
ResultTable ratio_table(const Results& results, const ArmRatios& ratios);

// ---- the network as a whole ----

/// A row for each arm: speed, memory, loss and accuracy over the seeds.
ResultTable training_table(const Results& results);
/// A row for each arm and seed.
ResultTable seed_table(const Results& results);
/// A row for each pair of arms: how far they part.
ResultTable difference_table(const Results& results);
/// A row for each step: the loss of each arm and their differences.
ResultTable loss_table(const Results& results);
/// A row for each batch size: times, images per second and verdicts.
ResultTable throughput_table(const Results& results, const StepKind& kind);
/// What inference is there: "images to outputs, without the loss".
std::string inference_words(const Results& results);
/// A row for each arm that could not run at some batch size, and why.
ResultTable not_run_table(const Results& results);
/// The layers of one arm, its implementations and what the libraries chose.
ResultTable arm_network_table(const ArmRecord& arm);
/// The machine, the versions, the ceilings measured and what the clocks did.
ResultTable environment_table(const Results& results);

}  // namespace duet
