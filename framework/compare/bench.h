// bench: all implementations of a layer on one problem or many, first whether they are right, then
// how fast they are side by side.
#pragma once

#include <chrono>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "compare/bench_problems.h"
#include "device/device.h"

namespace duet {

struct BenchOptions {
  ProblemSource problems;
  std::vector<std::string> impls;   // families and ids; empty: all of the device's
  std::vector<std::string> passes;  // "backward" is all backward passes; empty: all
  std::optional<Device> device;     // default: of `impls`, else the GPU if there is one
  bool quick = false;               // fewer and shorter blocks
  bool cold = false;                // also with the caches flushed before each call
  bool isolate = false;             // measure in a child process, and on where an implementation
                                    // ends it. REQUIRES: see run_in_child()
  std::chrono::milliseconds patience = std::chrono::minutes(5);  // with a single call
  bool once = false;      // run each implementation once, unchecked and untimed
  bool sanitize = false;  // do that under compute-sanitizer's tools
  bool json = false;      // print the results instead of tables
  std::string out;        // file for the results
  std::string ladder;     // layer type whose bench.yaml is run, its table printed
  bool write = false;     // ... and written into its README
  bool force = false;     // ... also CPU numbers over a GPU's
  std::string command;    // the command line, for the results
};

/// Measures and prints each problem and pass as it is done; the results are written to
/// `options.out`. With `once` or `sanitize` nothing is measured or written. Returns kExitDone, or
/// kExitComparison if an implementation was wrong anywhere. Throws duet::Error.
int run_bench(const BenchOptions& options, std::ostream& out);

}  // namespace duet
