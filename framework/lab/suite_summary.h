// How one family does beside another on whole suites (suites.h): one line of figures for each suite,
// layer type, pass and math.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/results/results.h"

namespace duet {

inline constexpr const char* kSuitesSchema = "duet.suites/1";

/// What of a row of bench a summary needs.
struct SuiteArm {
  std::string implementation;
  double us = kUnknown, share_of_floor = kUnknown;
  void fields(auto& f) {
    f("implementation", implementation)("us", us).maybe("share_of_floor", share_of_floor);
  }
};
struct SuiteRow {
  std::string suite, layer, type, pass, shape;
  std::optional<bool> held_out = {};
  std::string baseline;        // implementation; empty: none was timed
  std::vector<SuiteArm> arms;  // those that were timed
  void fields(auto& f) {
    f.maybe("suite", suite)("layer", layer)("type", type)("pass", pass)("shape", shape);
    f.maybe("held_out", held_out)("baseline", baseline)("arms", arms);
  }
};
/// Rows that one command measured, and its machine, versions and day.
struct SuitePart {
  std::string measured;
  std::vector<SuiteRow> rows;
  void fields(auto& f) { f("measured", measured)("rows", rows); }
};
struct SuiteResults {
  std::string schema = kSuitesSchema, device;
  std::vector<SuitePart> parts;
  void fields(auto& f) { f("schema", schema)("device", device)("parts", parts); }
};

/// Several results of bench; of two that measured the same problem and pass
/// the later one counts. Throws DataError: a file is damaged or no results of bench, or of another
/// device than the first.
std::vector<BenchResults> read_bench_results(const std::vector<std::string>& files);

SuiteResults suite_results(const BenchResults& results);
/// Results of bench and of suites, likewise.
SuiteResults read_suite_results(const std::vector<std::string>& files);

/// The geometric mean of the speedups, that of the problems that are held out, in how many rows the one
/// is faster and slower by more than a fiftieth, and the worst row. What is compared: of a family the
/// fastest that was measured, or implementations where all are of one family; beside the baseline's. ""
/// if there is nothing to compare.
std::string suite_summary_text(const SuiteResults& results);
/// The same as a page, with the slowest rows, the rows of products and of layers that memory bounds,
/// and where, when and how all was measured.
std::string suite_summary_markdown(const SuiteResults& results);

}  // namespace duet
