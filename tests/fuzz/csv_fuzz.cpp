// Tables. The first letter says how they are to be read: h, with a header; n, without; s, with one,
// leaving out what is wrong; z, with one, out of a gzip file.
#include "data/csv.h"

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
  try {
    const duet::CsvTable table =
        duet::read_csv(duet::input_path(how == 'z' ? "input.gz" : "input", input.substr(1)), rules);
    const size_t rows = table.labels.size();
    if (rows == 0 || table.lines.size() != rows || table.numbers.size() != 2 * rows) std::abort();
    for (const float number : table.numbers) {
      if (!std::isfinite(number)) std::abort();
    }
    if (!rules.skip && !table.skipped.empty()) std::abort();
  } catch (const duet::Error&) {
  }
}
