#include "compare/suite_summary.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "compare/bench_tables.h"
#include "compare/distinct.h"
#include "compare/format.h"
#include "compare/result_table.h"
#include "compare/results_json.h"
#include "core/config.h"
#include "layers/layer.h"

namespace duet {
namespace {

constexpr double kClearRatio = 1.02;  // beyond it a row is won or lost

/// A problem and pass of a suite, and how much faster `a` runs it than `b`.
struct Duel {
  const BenchRow* row;
  std::string math, a, b;
  double speedup;
};

std::string math_of(const BenchRow& row) {
  const std::string words = "," + shape_of(row) + ",";
  for (const char* math : {"bf16", "tf32"}) {
    if (words.find("," + std::string(math) + ",") != std::string::npos ||
        words.find(",math=" + std::string(math) + ",") != std::string::npos) {
      return math;
    }
  }
  return "fp32";
}

// A family's name, or of rows with one family alone the id's.
std::string side_of(const BenchRow& row, const std::string& id) {
  const bool one_family = std::all_of(row.arms.begin(), row.arms.end(), [&](const auto& arm) {
    return family_of(arm->implementation) == family_of(row.arms[0]->implementation);
  });
  return one_family ? id : std::string(to_string(family_of(id)));
}

// The fastest of each side; what is wrong has no time.
std::vector<Duel> duels_of(const BenchRow& row) {
  if (!row.baseline || !row.arm(*row.baseline)) return {};
  std::map<std::string, double> fastest;
  for (const auto& arm : row.arms) {
    if (!arm || !arm->us.known()) continue;
    const auto [known, is_new] = fastest.emplace(side_of(row, arm->implementation), arm->us.median);
    if (!is_new) known->second = std::min(known->second, double{arm->us.median});
  }
  const std::string b = side_of(row, row.arm(*row.baseline)->implementation);
  std::vector<Duel> duels;
  for (const auto& [a, us] : fastest) {
    if (a != b) duels.push_back({&row, math_of(row), a, b, fastest.at(b) / us});
  }
  return duels;
}

struct DuelGroup {
  std::string suite, what;  // "all", "conv2d forward"
  std::vector<Duel> duels;  // at least one, all of the same math and sides
  double mean() const {
    double sum = 0;
    for (const Duel& duel : duels) sum += std::log(duel.speedup);
    return std::exp(sum / static_cast<double>(duels.size()));
  }
  double count(bool (*of)(double)) const {
    return static_cast<double>(std::count_if(duels.begin(), duels.end(),
                                             [&](const Duel& duel) { return of(duel.speedup); }));
  }
  const Duel& worst() const {
    return *std::min_element(duels.begin(), duels.end(),
                             [](const Duel& x, const Duel& y) { return x.speedup < y.speedup; });
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

// Suite by suite; behind several of them all together.
std::vector<DuelGroup> groups_of(const std::vector<BenchResults>& all) {
  std::vector<DuelGroup> groups, together;
  Distinct suites;
  for (const BenchResults& results : all) {
    for (const BenchRow& row : results.rows) {
      for (const Duel& duel : duels_of(row)) {
        const std::string what = row.type + " " + row.pass;
        if (!row.suite.empty()) suites.add(row.suite);
        add(row.suite, what, duel, &groups);
        add("all", what, duel, &together);
      }
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const DuelGroup& a, const DuelGroup& b) { return a.suite < b.suite; });
  if (suites.texts().size() > 1) groups.insert(groups.end(), together.begin(), together.end());
  return groups;
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
          "worst", [](const DuelGroup& each) { return each.worst().speedup; }, format_speedup)
      .words("worst row", [](const DuelGroup& each) {
        const BenchRow& row = *each.worst().row;
        return (row.layer.empty() ? "" : row.layer + ": ") + shape_of(row);
      });
}

}  // namespace

std::vector<BenchResults> read_bench_results(const std::vector<std::string>& files) {
  std::vector<BenchResults> all;
  const auto key = [](const BenchRow& row) {
    return std::make_tuple(row.suite, row.type, row.pass, shape_of(row));
  };
  for (const std::string& file : files) {
    BenchResults next = load_as<BenchResults>(file, "bench", kBenchSchema);
    if (!all.empty() && all[0].environment.device() != next.environment.device()) {
      throw DataError(file + ": was measured on " + next.environment.device() + ", and " +
                      files[0] + " on " + all[0].environment.device() +
                      ": times are compared on one device");
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

std::string suite_summary_text(const std::vector<BenchResults>& all) {
  return console_text(table_of(groups_of(all)));
}

std::string suite_summary_markdown(const std::vector<BenchResults>& all) {
  std::string text =
      "# Suites\n\n"
      "Layers of published networks, and matrix products: how much faster the first of the two is "
      "than the second, written by `bench --suite` and `bench --from`. A row is a problem and "
      "pass; of "
      "a family it is what a network would run, or the fastest of what was measured. Faster and "
      "slower "
      "are rows beyond 2%.\n\n" +
      markdown_table(table_of(groups_of(all))) + "\n";
  for (const BenchResults& results : all) {
    if (!results.rows.empty()) text += measured_on_text(results) + "\n\n";
  }
  return text;
}

}  // namespace duet
