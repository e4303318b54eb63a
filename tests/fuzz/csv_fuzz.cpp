// Tables. The first letter says how they are to be read: h, with a header; n, without; s, with one,
// leaving out what is wrong; z, with one, out of a gzip file; t, with one, of which a column is a
// target and none a label; f, the features of such a table alone, by their names, and g by their
// places.
#include "data/format/csv.h"

#include <cmath>
#include <cstdlib>

#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/input_path.h"

DUET_FUZZ_TARGET(csv) {
  if (input.empty()) return;
  const char how = input[0];
  duet::CsvRules rules{.features = 2};
  rules.header = how != 'n';
  rules.skip = how == 's';
  if (how == 'n') rules.label = "1";
  const bool features = how == 'f' || how == 'g', targets = how == 't' || features;
  if (targets) {
    rules.label.reset();
    rules.targets = {"c"};
  }
  try {
    const auto path = duet::input_path(how == 'z' ? "input.gz" : "input", input.substr(1));
    const std::vector<std::string> names = {"a", "b"};
    const duet::CsvTable table =
        features
            ? duet::read_csv_features(path, rules, how == 'f' ? names : std::vector<std::string>())
            : duet::read_csv(path, rules);
    const size_t rows = table.lines.size();
    if (rows == 0 || table.labels.size() != (targets ? 0 : rows) ||
        table.targets.size() != (how == 't' ? rows : 0) || table.numbers.size() != 2 * rows) {
      std::abort();
    }
    for (const float number : table.numbers) {
      if (!std::isfinite(number)) std::abort();
    }
    if (!rules.skip && !table.skipped.empty()) std::abort();
  } catch (const duet::Error&) {
  }
}
