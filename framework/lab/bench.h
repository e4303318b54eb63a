// bench: all implementations of a layer on one problem or many, first whether they are right, then
// how fast they are side by side.
#pragma once

#include <chrono>
#include <exception>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "compare/results/results.h"
#include "device/device.h"
#include "lab/bench_problems.h"

namespace duet {

struct BenchOptions {
  ProblemSource problems;
  std::vector<std::string> impls;   // families and ids; empty: all of the device's
  std::vector<std::string> passes;  // "backward" is all backward passes; empty: all
  bool choice = false;              // of a family only what a network would run; of suites too
                                    // where `impls` are empty
  std::optional<Device> device;     // default: of `impls`, else the GPU if there is one
  bool quick = false;               // fewer and shorter blocks
  bool cold = false;                // also with the caches flushed before each call
  bool check_only = false;          // whether they are right, and no times
  bool isolate = false;             // measure in a child process, and on where an implementation
                                    // ends it. REQUIRES: see run_in_child()
  std::chrono::milliseconds patience = std::chrono::minutes(5);  // with a single call
  bool once = false;      // run each implementation once, unchecked and untimed
  bool sanitize = false;  // do that under compute-sanitizer's tools
  bool ncu = false;       // do that under Nsight Compute
  bool sass = false;      // print the machine code of kernels of files; lab/kernel_tools.h
  bool json = false;      // print the results instead of tables
  std::string out;        // file for the results
  bool watch = false;     // examine the kernels of files at every save; lab/watch.h
  bool tune = false;      // find the best values of their DUET_TUNE; lab/tune.h
  std::string puzzle;     // folder of puzzles; lab/puzzle.h
  std::string ladder;     // layer type whose bench.yaml is run, its table printed
  bool write = false;     // ... and written into its README; of suites: docs/results/suites.md
  bool force = false;     // ... also CPU numbers over a GPU's
  std::vector<std::string> from;  // results of suites, or parts of a ladder; nothing is measured
  std::string summary;            // page for the summary of suites; a .json of its rows beside it
  std::string command;            // the command line, for the results
};

/// Measures and prints each problem and pass as it is done, and of suites a summary; the results are
/// written to `options.out`. With `once`, `sanitize`, `ncu` or `sass` nothing is measured or written. Returns kExitDone, or
/// kExitComparison if an implementation was wrong anywhere, or else kExitUnsupported if a file of kernels
/// could not be compiled. Throws duet::Error.
int run_bench(const BenchOptions& options, std::ostream& out);

/// Measures alone, prints and writes nothing. With the environment of an earlier measurement its ceilings
/// are not measured again. Rows that are finished when something stops it are returned, with the
/// reason; if there are none, throws the reason. REQUIRES: an InterruptGuard.
BenchResults measure_bench(const BenchOptions& options,
                           const std::optional<EnvironmentRecord>& environment,
                           std::exception_ptr* stopped);

}  // namespace duet
