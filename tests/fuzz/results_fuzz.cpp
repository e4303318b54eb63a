// Results of compare: what --from reads, with the summary, and everything that is made of it.
#include "compare/results/results_json.h"

#include "compare/report/report.h"
#include "compare/tables/markdown.h"
#include "compare/tables/summary.h"
#include "compare/tables/tables.h"
#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/input_path.h"

DUET_FUZZ_TARGET(results) {
  try {
    const duet::Results results = duet::load_results(duet::input_path("input.json", input));
    duet::failures(results, duet::read_fail_on({"mismatch", "slower:0.95"}));
    duet::results_text(results);
    duet::results_markdown(results);
    duet::results_summary(results);
    duet::report_html(results, "a chart library");
    duet::file_text(duet::to_json(results));
  } catch (const duet::Error&) {
  }
}
