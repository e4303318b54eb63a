#include <algorithm>
#include <cmath>
#include <set>

#include "compare/result_tables.h"
#include "compare/table_cells.h"

namespace duet {
namespace {

// Time of a pass, or why there is none.
Cell time_cell(const MeasuredArm* arm) {
  if (!arm) return {kNotMeasured};
  if (arm->is_wrong()) return {"wrong", Tone::kBad};
  return {shown(arm->us.median, format_significant)};
}

// The microseconds that the first takes less than the second: "18.4", "-0.31".
std::string saved_text(const MeasuredArm* first, const MeasuredArm* second) {
  if (!first || !second || first->is_wrong() || second->is_wrong()) return kNotMeasured;
  const double saved = second->us.median - first->us.median;
  if (std::isnan(saved)) return kNotMeasured;
  return (saved < 0 ? "-" : "") + format_significant(std::fabs(saved));
}

// Numbers of arm `i` of a row.
auto of_arm(size_t i, double MeasuredArm::*number) {
  return
      [i, number](const MeasuredRow& row) { return row.arm(i) ? row.arm(i)->*number : kUnknown; };
}

/// An arm that has this layer, and perhaps one of its tensors.
struct RowPart {
  const ComparedRow* row;
  size_t index;
  std::string arm_name;
  const MeasuredArm* arm;
  const TensorError* tensor = nullptr;
};

std::vector<RowPart> arms_of(const Results& results, const LayersSection& batch) {
  std::vector<RowPart> parts;
  for (const ComparedRow& row : batch.rows) {
    for (size_t i = 0; i < row.arms.size(); ++i) {
      if (row.arm(i)) parts.push_back({&row, i, results.arm_name(i), row.arm(i)});
    }
  }
  return parts;
}

std::vector<RowPart> tensors_of(const Results& results, const LayersSection& batch) {
  std::vector<RowPart> parts;
  for (RowPart part : arms_of(results, batch)) {
    for (const TensorError& tensor : part.arm->tensors) {
      part.tensor = &tensor;
      parts.push_back(part);
    }
  }
  return parts;
}

const std::string& layer_of(const RowPart& part) { return part.row->layer; }
const std::string& pass_of(const RowPart& part) { return part.row->pass; }

// Of a part's arm or tensor.
auto of(double MeasuredArm::*number) {
  return [number](const RowPart& part) { return part.arm->*number; };
}
auto of(double TensorError::*number) {
  return [number](const RowPart& part) { return part.tensor->*number; };
}
auto of(std::string TensorError::*text) {
  return [text](const RowPart& part) { return part.tensor->*text; };
}

// Not `> 1`: a share that is not a number is beyond every limit.
Cell share_cell(const RowPart& part) {
  const double share = part.tensor->share_of_limit;
  const bool beyond = !std::isnan(share) && !(share <= 1);
  return {shown(share, format_share), beyond ? Tone::kBad : Tone::kPlain};
}

}  // namespace

ResultTable layer_table(const Results& results, const LayersSection& batch) {
  const size_t arms = results.arms.size();
  // What is asked first stands first: on a narrow screen the rest has to be scrolled to.
  TableOf<ComparedRow> table(batch.rows);
  table.words("layer", &ComparedRow::layer).words("pass", &ComparedRow::pass);
  std::set<ArmPair> pairs;
  for (const ComparedRow& row : batch.rows) add_pairs(row.ratios, &pairs);
  add_ratio_columns(results, pairs, &ComparedRow::ratios, &table);
  for (size_t i = 0; i < arms; ++i) {
    table.numbers(results.arm_name(i) + " µs",
                  [&](const ComparedRow& row) { return time_cell(row.arm(i)); });
  }
  if (arms == 2) {
    table.numbers("saved µs",
                  [](const ComparedRow& row) { return saved_text(row.arm(0), row.arm(1)); });
  }
  table.numbers("floor µs", &ComparedRow::floor_us, format_significant);
  for (size_t i = 0; i < arms; ++i) {
    table.numbers(results.arm_name(i) + ", share of floor", of_arm(i, &MeasuredArm::share_of_floor),
                  format_share);
  }
  return table;
}

ResultTable layer_detail_table(const Results& results, const LayersSection& batch) {
  const auto parts = arms_of(results, batch);
  return TableOf(parts)
      .words("layer", layer_of)
      .words("pass", pass_of)
      .words("arm", &RowPart::arm_name)
      .words("implementation", [](const RowPart& part) { return implementation_text(*part.arm); })
      .words("detail", [](const RowPart& part) { return part.arm->detail; })
      .numbers(
          "workspace", [](const RowPart& p) { return p.arm->workspace_bytes; }, format_size)
      .numbers("µs", [](const RowPart& part) { return time_cell(part.arm); })
      .numbers("p20 to p80", [](const RowPart& part) { return spread(part.arm->us); })
      .numbers(
          "cold µs", [](const RowPart& p) { return p.arm->cold_us.median; }, format_significant)
      .numbers("in network µs", of(&MeasuredArm::in_network_us), format_significant)
      .numbers("GFLOP/s", of(&MeasuredArm::gflop_per_s), format_significant)
      .numbers("GB/s", of(&MeasuredArm::gb_per_s), format_significant);
}

ResultTable error_table(const Results& results, const LayersSection& batch) {
  const auto parts = tensors_of(results, batch);
  return TableOf(parts)
      .words("layer", layer_of)
      .words("pass", pass_of)
      .words("arm", &RowPart::arm_name)
      .words("tensor", of(&TensorError::name))
      .numbers("share of limit", share_cell)
      .numbers("max error", of(&TensorError::max_error), format_error)
      .numbers("RMS-relative", of(&TensorError::rms_relative), format_error)
      .numbers("cosine", of(&TensorError::cosine), format_near_one)
      .words("worst element", of(&TensorError::worst))
      .numbers("expected", of(&TensorError::expected), format_value)
      .numbers("found", of(&TensorError::found), format_value)
      .words("limit", of(&TensorError::limit));
}

ResultTable worst_error_table(const Results& results, const LayersSection& batch) {
  const auto parts = tensors_of(results, batch);
  std::vector<RowPart> worst;
  for (size_t i = 0; i < results.arms.size(); ++i) {
    const RowPart* found = nullptr;
    for (const RowPart& part : parts) {
      if (part.index != i || std::isnan(part.tensor->share_of_limit)) continue;
      if (!found || part.tensor->share_of_limit > found->tensor->share_of_limit) found = &part;
    }
    if (found) worst.push_back(*found);
  }
  const auto checked = [&](const RowPart& part) {
    return std::to_string(std::count_if(parts.begin(), parts.end(), [&](const RowPart& other) {
      return other.index == part.index;
    }));
  };
  return TableOf(worst)
      .words("arm", &RowPart::arm_name)
      .numbers("outputs checked", checked)
      .numbers("largest share of limit", share_cell)
      .words("in", [](const RowPart& part) { return part.row->layer + " " + part.row->pass; })
      .words("tensor", of(&TensorError::name))
      .numbers("RMS-relative", of(&TensorError::rms_relative), format_error)
      .numbers("max error", of(&TensorError::max_error), format_error);
}

ResultTable error_ratio_table(const Results& results, const LayersSection& batch) {
  std::vector<ComparedRow> rows;
  std::copy_if(batch.rows.begin(), batch.rows.end(), std::back_inserter(rows), [](const auto& row) {
    return row.error_ratio && !std::isnan(row.error_ratio->value);
  });
  return TableOf(rows)
      .words("layer", &ComparedRow::layer)
      .words("pass", &ComparedRow::pass)
      .words("arm", [&](const auto& row) { return results.arm_name(row.error_ratio->a); })
      .words("against", [&](const auto& row) { return results.arm_name(row.error_ratio->b); })
      .numbers(
          "error ratio", [](const auto& row) { return row.error_ratio->value; }, format_significant)
      .words("within the rule", [](const auto& row) {
        return row.error_ratio->ok ? Cell{"yes"} : Cell{"no", Tone::kBad};
      });
}

ResultTable roofline_table(const Results& results, const LayersSection& batch) {
  std::vector<ComparedRow> rows;
  std::copy_if(batch.rows.begin(), batch.rows.end(), std::back_inserter(rows),
               [](const ComparedRow& row) { return row.flops > 0; });
  TableOf<ComparedRow> table(rows);
  table.words("layer", &ComparedRow::layer).words("pass", &ComparedRow::pass);
  table.numbers(
      "FLOP/byte",
      [](const ComparedRow& row) { return row.bytes > 0 ? row.flops / row.bytes : kUnknown; },
      format_significant);
  for (size_t i = 0; i < results.arms.size(); ++i) {
    table.numbers(results.arm_name(i) + " GFLOP/s", of_arm(i, &MeasuredArm::gflop_per_s),
                  format_significant);
  }
  for (size_t i = 0; i < results.arms.size(); ++i) {
    table.numbers(results.arm_name(i) + " GB/s", of_arm(i, &MeasuredArm::gb_per_s),
                  format_significant);
  }
  return table;
}

ResultTable totals_table(const Results& results, const LayersSection& batch) {
  return TableOf(batch.totals)
      .words("arm", [&](const ArmTotal& total) { return results.arm_name(total.arm); })
      .numbers(
          "step µs", [](const ArmTotal& t) { return t.step_us.median; }, format_significant)
      .numbers("p20 to p80", [](const ArmTotal& total) { return spread(total.step_us); })
      .numbers("sum of rows µs", &ArmTotal::sum_us, format_significant)
      .numbers("sum in network µs", &ArmTotal::in_network_sum_us, format_significant)
      .numbers("gap µs", &ArmTotal::gap_us, format_significant)
      .numbers("prepare", &ArmTotal::prepare_s, format_seconds)
      .numbers("memory", &ArmTotal::memory_bytes, format_size);
}

ResultTable repeat_table(const LayersSection& batch) {
  return TableOf(batch.rows)
      .words("layer", &ComparedRow::layer)
      .words("pass", &ComparedRow::pass)
      .words("problem", &ComparedRow::problem)
      .words("command", &ComparedRow::repeat);
}

ResultTable fault_table(const Results& results) {
  ResultTable table{
      {{"batch"}, {"layer", false}, {"pass", false}, {"arm", false}, {"what is wrong", false}}, {}};
  for (const LayersSection& batch : results.layers) {
    for (const RowPart& part : arms_of(results, batch)) {
      for (const FoundFault& fault : part.arm->faults) {
        table.rows.push_back({{batch_text(batch.batch)},
                              {part.row->layer},
                              {part.row->pass},
                              {part.arm_name},
                              {fault.text, Tone::kBad}});
      }
    }
  }
  return table;
}

}  // namespace duet
