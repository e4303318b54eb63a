#include "lab/suite_summary.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "compare/results/results_json.h"
#include "compare/tables/format.h"
#include "compare/tables/result_table.h"
#include "core/config.h"
#include "lab/bench_tables.h"
#include "lab/suites.h"
#include "layers/layer.h"

namespace duet {
namespace {

constexpr double kClearRatio = 1.02;  // beyond it a row is won or lost

/// A problem and pass of a suite, and how much faster `a` runs it than `b`.
struct Duel {
  const SuiteRow* row;
  std::string math, a, b;
  const SuiteArm *of_a, *of_b;
  double speedup() const { return of_b->us / of_a->us; }
};

std::string math_of(const SuiteRow& row) {
  const std::string words = "," + row.shape + ",";
  for (const char* math : {"bf16", "tf32"}) {
    if (words.find("," + std::string(math) + ",") != std::string::npos ||
        words.find(",math=" + std::string(math) + ",") != std::string::npos) {
      return math;
    }
  }
  return "fp32";
}

// A family's name, or of rows with one family alone the id's.
std::string side_of(const SuiteRow& row, const std::string& id) {
  const bool one_family = std::all_of(row.arms.begin(), row.arms.end(), [&](const SuiteArm& arm) {
    return family_of(arm.implementation) == family_of(row.arms[0].implementation);
  });
  return one_family ? id : std::string(to_string(family_of(id)));
}

// The fastest of each side.
std::vector<Duel> duels_of(const SuiteRow& row) {
  if (row.baseline.empty()) return {};
  std::map<std::string, const SuiteArm*> fastest;
  for (const SuiteArm& arm : row.arms) {
    const SuiteArm*& best = fastest[side_of(row, arm.implementation)];
    if (!best || arm.us < best->us) best = &arm;
  }
  const std::string b = side_of(row, row.baseline);
  std::vector<Duel> duels;
  for (const auto& [a, arm] : fastest) {
    if (a != b && fastest.contains(b)) {
      duels.push_back({&row, math_of(row), a, b, arm, fastest.at(b)});
    }
  }
  return duels;
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += std::log(value);
  return values.empty() ? kUnknown : std::exp(sum / static_cast<double>(values.size()));
}

struct DuelGroup {
  std::string suite, what;  // "all", "conv2d forward"
  std::vector<Duel> duels;  // at least one, all of the same math and sides
  double mean() const { return mean_of(false); }
  /// Of the problems that are held out.
  double held_out() const { return mean_of(true); }
  double share_of_floor() const {
    std::vector<double> shares;
    for (const Duel& duel : duels) {
      if (!std::isnan(duel.of_a->share_of_floor)) shares.push_back(duel.of_a->share_of_floor);
    }
    return shares.size() == duels.size() ? geometric_mean(shares) : kUnknown;
  }
  double count(bool (*of)(double)) const {
    return static_cast<double>(std::count_if(duels.begin(), duels.end(),
                                             [&](const Duel& duel) { return of(duel.speedup()); }));
  }
  const Duel& worst() const {
    return *std::min_element(duels.begin(), duels.end(), [](const Duel& x, const Duel& y) {
      return x.speedup() < y.speedup();
    });
  }

 private:
  double mean_of(bool held_out) const {
    std::vector<double> speedups;
    for (const Duel& duel : duels) {
      if (!held_out || duel.row->held_out == true) speedups.push_back(duel.speedup());
    }
    return geometric_mean(speedups);
  }
};

void add(const std::string& suite, const std::string& what, const Duel& duel,
         std::vector<DuelGroup>* groups) {
  const auto key = [](const std::string& name, const std::string& of, const Duel& each) {
    return std::tie(name, of, each.math, each.a, each.b);
  };
  const auto group = std::find_if(groups->begin(), groups->end(), [&](const DuelGroup& each) {
    return key(each.suite, each.what, each.duels[0]) == key(suite, what, duel);
  });
  if (group == groups->end()) {
    groups->push_back({suite, what, {duel}});
  } else {
    group->duels.push_back(duel);
  }
}

// Suite by suite; behind them what several have, together.
std::vector<DuelGroup> groups_of(const SuiteResults& results) {
  std::vector<DuelGroup> groups, together;
  for (const SuitePart& part : results.parts) {
    for (const SuiteRow& row : part.rows) {
      for (const Duel& duel : duels_of(row)) {
        const std::string what = row.type + " " + row.pass;
        add(row.suite, what, duel, &groups);
        add("all", what, duel, &together);
      }
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const DuelGroup& a, const DuelGroup& b) { return a.suite < b.suite; });
  std::copy_if(together.begin(), together.end(), std::back_inserter(groups), [](const auto& each) {
    return std::any_of(each.duels.begin(), each.duels.end(), [&](const Duel& duel) {
      return duel.row->suite != each.duels[0].row->suite;
    });
  });
  return groups;
}

std::string name_of(const SuiteRow& row) {
  return (row.layer.empty() ? "" : row.layer + ": ") + row.shape;
}

ResultTable table_of(const std::vector<DuelGroup>& groups) {
  return TableOf(groups)
      .words("suite", &DuelGroup::suite)
      .words("pass", &DuelGroup::what)
      .words("math", [](const DuelGroup& each) { return each.duels[0].math; })
      .words("compared",
             [](const DuelGroup& each) { return each.duels[0].a + " / " + each.duels[0].b; })
      .numbers(
          "rows", [](const DuelGroup& each) { return static_cast<double>(each.duels.size()); },
          format_whole)
      .numbers("geometric mean", &DuelGroup::mean, format_speedup)
      .numbers("held out", &DuelGroup::held_out, format_speedup)
      .numbers(
          "faster",
          [](const DuelGroup& each) {
            return each.count([](double x) { return x > kClearRatio; });
          },
          format_whole)
      .numbers(
          "slower",
          [](const DuelGroup& each) {
            return each.count([](double x) { return x < 1 / kClearRatio; });
          },
          format_whole)
      .numbers(
          "worst", [](const DuelGroup& each) { return each.worst().speedup(); }, format_speedup)
      .numbers("of floor", &DuelGroup::share_of_floor, format_share)
      .words("worst row", [](const DuelGroup& each) { return name_of(*each.worst().row); });
}

// Duel by duel.
ResultTable rows_table(const std::vector<Duel>& duels) {
  const auto arm = [](const SuiteArm* Duel::*of) {
    return [of](const Duel& duel) { return (duel.*of)->implementation; };
  };
  const auto us = [](const SuiteArm* Duel::*of) {
    return [of](const Duel& duel) { return (duel.*of)->us; };
  };
  return TableOf(duels)
      .words("suite", [](const Duel& duel) { return duel.row->suite; })
      .words("row", [](const Duel& duel) { return name_of(*duel.row); })
      .words("pass", [](const Duel& duel) { return duel.row->pass; })
      .words("by", arm(&Duel::of_a))
      .numbers("us", us(&Duel::of_a))
      .words("beside", arm(&Duel::of_b))
      .numbers("us", us(&Duel::of_b))
      .numbers("speedup", &Duel::speedup, format_speedup)
      .numbers(
          "of floor", [](const Duel& duel) { return duel.of_a->share_of_floor; }, format_share);
}

std::vector<Duel> all_duels(const SuiteResults& results, bool (*wanted)(const SuiteRow&)) {
  std::vector<Duel> all;
  for (const SuitePart& part : results.parts) {
    for (const SuiteRow& row : part.rows) {
      if (!wanted(row)) continue;
      for (Duel& duel : duels_of(row)) all.push_back(std::move(duel));
    }
  }
  return all;
}

std::vector<Duel> slowest(const SuiteResults& results) {
  constexpr size_t kShown = 20;
  std::vector<Duel> all = all_duels(results, [](const SuiteRow&) { return true; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Duel& a, const Duel& b) { return a.speedup() < b.speedup(); });
  if (all.size() > kShown) all.resize(kShown);
  return all;
}

/// Adds `part` to `results`, in whose parts it replaces what was measured before.
void add(SuitePart part, SuiteResults* results) {
  const auto key = [](const SuiteRow& row) {
    return std::tie(row.suite, row.type, row.pass, row.shape);
  };
  for (SuitePart& before : results->parts) {
    std::erase_if(before.rows, [&](const SuiteRow& old) {
      return std::any_of(part.rows.begin(), part.rows.end(),
                         [&](const SuiteRow& row) { return key(row) == key(old); });
    });
  }
  std::erase_if(results->parts, [](const SuitePart& each) { return each.rows.empty(); });
  if (!part.rows.empty()) results->parts.push_back(std::move(part));
}

SuiteResults read_suite_file(const std::string& file) {
  try {
    return load_as<SuiteResults>(file, "bench --summary", kSuitesSchema);
  } catch (const DataError&) {
    return suite_results(load_as<BenchResults>(file, "bench", kBenchSchema));
  }
}

void check_device(const std::string& file, const std::string& device, const std::string& first,
                  const std::string& first_device) {
  if (device == first_device) return;
  throw DataError(file + ": was measured on " + device + ", and " + first + " on " + first_device +
                  ": times are compared on one device");
}

/// "; of vgg16 9 of 12 problems" for each suite of which the part has not all.
std::string what_is_missing(const SuitePart& part) {
  std::map<std::string, std::set<std::pair<std::string, std::string>>> measured;  // by suite
  for (const SuiteRow& row : part.rows) {
    measured[row.suite].emplace(row.type, row.layer.empty() ? row.shape : row.layer);
  }
  const std::vector<std::string> names = suite_names();
  std::string text;
  for (const auto& [suite, problems] : measured) {
    if (std::find(names.begin(), names.end(), suite) == names.end()) continue;
    const size_t all = make_suite(suite).problems.size();
    if (problems.size() >= all) continue;
    text += "; of " + suite + " " + std::to_string(problems.size()) + " of " + std::to_string(all) +
            " problems";
  }
  return text;
}

}  // namespace

std::vector<BenchResults> read_bench_results(const std::vector<std::string>& files) {
  std::vector<BenchResults> all;
  const auto key = [](const BenchRow& row) {
    return std::make_tuple(row.suite, row.type, row.pass, shape_of(row));
  };
  for (const std::string& file : files) {
    BenchResults next = load_as<BenchResults>(file, "bench", kBenchSchema);
    if (!all.empty()) {
      check_device(file, next.environment.device(), files[0], all[0].environment.device());
    }
    for (BenchResults& before : all) {
      std::erase_if(before.rows, [&](const BenchRow& old) {
        return std::any_of(next.rows.begin(), next.rows.end(),
                           [&](const BenchRow& row) { return key(row) == key(old); });
      });
    }
    all.push_back(std::move(next));
  }
  return all;
}

SuiteResults suite_results(const BenchResults& results) {
  SuitePart part = {.measured = measured_on_text(results)};
  for (const BenchRow& row : results.rows) {
    SuiteRow& made = part.rows.emplace_back(SuiteRow{.suite = row.suite,
                                                     .layer = row.layer,
                                                     .type = row.type,
                                                     .pass = row.pass,
                                                     .shape = shape_of(row),
                                                     .held_out = row.held_out});
    if (row.baseline && row.arm(*row.baseline)) {
      made.baseline = row.arm(*row.baseline)->implementation;
    }
    for (const auto& arm : row.arms) {  // what is wrong has no time
      if (!arm || !arm->us.known()) continue;
      made.arms.push_back({arm->implementation, arm->us.median, arm->share_of_floor});
    }
  }
  return {.device = results.environment.device(), .parts = {std::move(part)}};
}

SuiteResults read_suite_results(const std::vector<std::string>& files) {
  SuiteResults all;
  for (const std::string& file : files) {
    SuiteResults next = read_suite_file(file);
    if (all.device.empty()) all.device = next.device;
    check_device(file, next.device, files[0], all.device);
    for (SuitePart& part : next.parts) add(std::move(part), &all);
  }
  return all;
}

std::string suite_summary_text(const SuiteResults& results) {
  return console_text(table_of(groups_of(results)));
}

std::string suite_summary_markdown(const SuiteResults& results) {
  std::string text =
      "# Suites\n\n"
      "Layers of published networks, matrix products and layers that memory bounds: how much "
      "faster "
      "the first of the two is than the second, written by `bench --suite ... --write` and `bench "
      "--from ... --write`. A row is a problem and pass; of a family it is what a network would "
      "run, or "
      "the fastest of what was measured. Every third problem of a suite is held out: no kernel and "
      "no "
      "choice between kernels is made by its times; their mean stands apart. Faster and slower are "
      "rows "
      "beyond 2%. The floor is the longer of a row's products and bytes at what this GPU reaches; "
      "where "
      "memory bounds, the share of the floor is that of the rate of a copy; fp32 in three parts, "
      "on tensor "
      "cores, may be beyond it. An implementation is "
      "examined whole in the first row of its layer type, pass and math; in every row its values "
      "are "
      "compared with the reference before and after they are timed.\n\n" +
      markdown_table(table_of(groups_of(results)));
  const auto add_rows = [&](const std::string& heading, const std::vector<Duel>& duels) {
    if (!duels.empty()) text += "\n## " + heading + "\n\n" + markdown_table(rows_table(duels));
  };
  add_rows("Products", all_duels(results, [](const SuiteRow& row) { return row.suite == "gemm"; }));
  add_rows("Layers that memory bounds",
           all_duels(results, [](const SuiteRow& row) { return row.suite == "memory"; }));
  add_rows("The slowest rows", slowest(results));
  text += "\n## Measured\n\n";
  for (const SuitePart& part : results.parts) {
    text += "- " + part.measured + what_is_missing(part) + "\n";
  }
  return text;
}

}  // namespace duet
