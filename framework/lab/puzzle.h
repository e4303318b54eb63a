// bench --puzzle: a pass of a layer that the user is to write, and where what was written stands.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "compare/results/results.h"
#include "lab/bench.h"

namespace duet {

/// Of options.problems.layer and the one pass of options.passes, forward if there is none, in
/// LAYER_custom_puzzle.cu of the folder options.puzzle (of a backward pass
/// LAYER_custom_puzzle_PASS.cu). Where there is no such file writes one, with the formula and kernels
/// without a body; where there is, examines it, and if it is right times it beside all
/// others of the GPU. Returns kExitDone: written, or right; kExitComparison: wrong. Throws
/// ConfigError where there is no puzzle of the layer, UnsupportedError where it compiles and nothing
/// here can run it.
int run_puzzle(const BenchOptions& options, std::ostream& out);

/// A file to begin with (user_kernels/starter.h) of which `pass` is left, its kernels without their
/// bodies; "" if it has no such pass.
std::string puzzle_text(const std::string& starter, const std::string& pass);

/// Where `id` stands among the arms of a row that were timed, fastest first, and between which two.
std::string rungs_text(const BenchRow& row, const std::string& id);

}  // namespace duet
