#include <algorithm>
#include <cmath>
#include <set>

#include "compare/tables/result_tables.h"
#include "compare/tables/table_cells.h"

namespace duet {
namespace {

// Time of a pass, or why there is none.
Cell time_cell(const MeasuredArm& arm) {
  if (arm.is_wrong()) return {"wrong", Tone::kBad};
  return {shown(arm.us, format_significant)};
}

// The microseconds that the first takes less than the second: "18.4", "-0.31".
std::string saved_text(const MeasuredArm* first, const MeasuredArm* second) {
  if (!first || !second || first->is_wrong() || second->is_wrong()) return kNotMeasured;
  const double saved = second->us - first->us;
  if (std::isnan(saved)) return kNotMeasured;
  return (saved < 0 ? "-" : "") + format_significant(std::fabs(saved));
}

// Numbers of arm `i` of a row.
auto of(size_t i, double MeasuredArm::*number) {
  return
      [i, number](const MeasuredRow& row) { return row.arm(i) ? row.arm(i)->*number : kUnknown; };
}

Cell share_cell(const TensorError& tensor) {
  const double share = tensor.share_of_limit;
  return {shown(share, format_share), share > 1 ? Tone::kBad : Tone::kPlain};
}

// Of the tensor that is nearest to its limit.
Cell worst_share_cell(const MeasuredArm& arm) {
  return {shown(arm.worst_share(), format_share), arm.is_wrong() ? Tone::kBad : Tone::kPlain};
}

TableOf<RowPart> arm_rows(const std::vector<RowPart>& parts) {
  TableOf<RowPart> table(parts);
  table.words("layer", &RowPart::layer)
      .words("pass", &RowPart::pass)
      .words("arm", &RowPart::arm_name);
  return table;
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
    table.numbers(results.arm_name(i) + " µs", [&](const ComparedRow& row) {
      return row.arm(i) ? time_cell(*row.arm(i)) : Cell{kNotMeasured};
    });
  }
  if (arms == 2) {
    table.numbers("saved µs", [](const auto& row) { return saved_text(row.arm(0), row.arm(1)); });
  }
  table.numbers("floor µs", &ComparedRow::floor_us);
  for (size_t i = 0; i < arms; ++i) {
    table.numbers(results.arm_name(i) + ", share of floor", of(i, &MeasuredArm::share_of_floor),
                  format_share);
  }
  return table;
}

ResultTable rate_table(const Results& results, const LayersSection& batch) {
  const auto parts = arms_of(results, batch);
  return arm_rows(parts)
      .numbers("µs", of_arm(time_cell))
      .numbers("p20 to p80", of_arm(spread_of))
      .numbers("cold µs", of_arm(&MeasuredArm::cold_us))
      .numbers("in network µs", of_arm(&MeasuredArm::in_network_us))
      .numbers("GFLOP/s", of_arm(&MeasuredArm::gflop_per_s))
      .numbers("GB/s", of_arm(&MeasuredArm::gb_per_s));
}

ResultTable implementation_table(const Results& results, const LayersSection& batch) {
  std::vector<RowPart> parts = arms_of(results, batch);
  std::erase_if(parts, [](const RowPart& part) { return part.arm->implementation.empty(); });
  return arm_rows(parts)
      .words("implementation", of_arm(implementation_text))
      .numbers("error, share of limit", of_arm(worst_share_cell))
      .numbers("workspace", of_arm(&MeasuredArm::workspace_bytes), format_size)
      .words("detail", of_arm(&MeasuredArm::detail));
}

ResultTable error_table(const Results& results, const LayersSection& batch) {
  const auto parts = tensors_of(results, batch);
  return arm_rows(parts)
      .words("tensor", of_tensor(&TensorError::name))
      .numbers("share of limit", of_tensor(share_cell))
      .numbers("max error", of_tensor(&TensorError::max_error), format_error)
      .numbers("RMS-relative", of_tensor(&TensorError::rms_relative), format_error)
      .numbers("cosine", of_tensor(&TensorError::cosine), format_near_one)
      .words("worst element", of_tensor(&TensorError::worst))
      .numbers("expected", of_tensor(&TensorError::expected), format_value)
      .numbers("found", of_tensor(&TensorError::found), format_value)
      .words("limit", of_tensor(&TensorError::limit));
}

ResultTable worst_error_table(const Results& results, const LayersSection& batch) {
  const auto parts = tensors_of(results, batch);
  std::vector<RowPart> worst;
  std::vector<size_t> checked(results.arms.size());
  for (size_t i = 0; i < results.arms.size(); ++i) {
    const RowPart* found = nullptr;
    for (const RowPart& part : parts) {
      if (part.index != i) continue;
      ++checked[i];
      const double share = part.tensor->share_of_limit;
      if (share > (found ? found->tensor->share_of_limit : -1)) found = &part;
    }
    if (found) worst.push_back(*found);
  }
  return TableOf(worst)
      .words("arm", &RowPart::arm_name)
      .numbers("outputs checked",
               [&](const auto& part) { return std::to_string(checked[part.index]); })
      .numbers("largest share of limit", of_tensor(share_cell))
      .words("in", [](const RowPart& part) { return part.layer + " " + part.pass; })
      .words("tensor", of_tensor(&TensorError::name))
      .numbers("RMS-relative", of_tensor(&TensorError::rms_relative), format_error)
      .numbers("max error", of_tensor(&TensorError::max_error), format_error);
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
      .numbers("error ratio", [](const auto& row) { return row.error_ratio->value; })
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
  table.numbers("FLOP/byte", [](const ComparedRow& row) {
    return row.bytes > 0 ? row.flops / row.bytes : kUnknown;
  });
  for (size_t i = 0; i < results.arms.size(); ++i) {
    table.numbers(results.arm_name(i) + " GFLOP/s", of(i, &MeasuredArm::gflop_per_s));
  }
  for (size_t i = 0; i < results.arms.size(); ++i) {
    table.numbers(results.arm_name(i) + " GB/s", of(i, &MeasuredArm::gb_per_s));
  }
  return table;
}

ResultTable totals_table(const Results& results, const LayersSection& batch) {
  return TableOf(batch.totals)
      .words("arm", [&](const ArmTotal& total) { return results.arm_name(total.arm); })
      .numbers("step µs", &ArmTotal::step_us)
      .numbers("p20 to p80", [](const ArmTotal& total) { return spread(total.step_us); })
      .numbers("sum of rows µs", &ArmTotal::sum_us)
      .numbers("sum in network µs", &ArmTotal::in_network_sum_us)
      .numbers("gap µs", &ArmTotal::gap_us)
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
                              {part.layer},
                              {part.pass},
                              {part.arm_name},
                              {fault.text, Tone::kBad}});
      }
    }
  }
  return table;
}

}  // namespace duet
