// compare: what `compare --config FILE` and `compare --from FILE` do.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/arms_options.h"

namespace duet {

struct CompareOptions {
  ArmsOptions arms;
  std::string data;                  // folder of the data set; empty: the usual places
  std::vector<std::string> only;     // sections, of compare_sections(); empty: all
  bool quick = false;                // shorter blocks, fewer seeds, epochs and batches
  std::vector<int64_t> batches;      // of throughput; empty: the usual ones
  std::optional<int64_t> seeds;      // trainings of each arm
  std::vector<std::string> fail_on;  // "mismatch", "slower", "slower:0.95"
  std::string from;                  // results to read instead of measuring
  std::string out;                   // results.json
  std::string report;                // the page for a browser
  std::string svg;                   // the first batch's step as a picture
  std::string markdown;
  std::string into;  // a page whose part between <!-- compare --> and <!-- /compare --> is replaced
  bool isolate = false;  // measure in a child process, and on where an implementation ends it.
                         // REQUIRES: see run_in_child()
  std::chrono::milliseconds patience = std::chrono::minutes(5);  // with a single call
  bool json = false;    // results to standard output instead of tables
  std::string command;  // the command line, for the results
};

/// "layers", "training", "throughput"
const std::vector<std::string>& compare_sections();

/// Throws ConfigError where a file that is to be written cannot be, or is one that is read: of those of
/// a data set that is known once it is loaded.
void check_files(const CompareOptions& options);

/// Measures (or reads), prints, writes. Returns kExitDone, kExitComparison where --fail-on strikes,
/// or kExitInterrupted; whatever was finished before an interrupt or an error is written all the
/// same. Everything that can be told before measuring is told before: wrong options, files that
/// cannot be written, arms that cannot run. Throws duet::Error.
int run_compare(const CompareOptions& options);

}  // namespace duet
