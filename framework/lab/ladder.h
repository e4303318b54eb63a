// The measured table in a layer's README, written by bench alone: between the lines
//   <!-- bench:conv2d -->
//   <!-- /bench -->
// of framework/layers/conv2d/README.md stands what the shapes of bench.yaml in that folder took, and between
//   <!-- ncu:conv2d -->
//   <!-- /ncu -->
// what bounds the kernels there, as Nsight Compute counted (bench --ladder conv2d --ncu). Other pages quote
// both (docs/pages.sh).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "compare/results/results.h"
#include "device/device.h"
#include "lab/bench_problems.h"

namespace duet {

struct Ladder {
  std::string layer;
  std::filesystem::path page;  // framework/layers/<layer>/README.md, or that of the layer's family
  std::filesystem::path shapes;  // bench.yaml beside it
};

/// Looks in the working directory and those above it, from `from` on. Throws ConfigError if there
/// is no such layer type, no repository or no bench.yaml.
Ladder find_ladder(const std::string& layer,
                   const std::filesystem::path& from = std::filesystem::current_path());

/// What write_ladder() would refuse, told before anything is measured. Throws ConfigError if the
/// lines are missing, or numbers of a GPU would give way to those of a CPU (unless `force`).
void check_ladder(const Ladder& ladder, Device device, bool force);
/// Whether all implementations but the library's were right. A library that is wrong on a problem has
/// its place in the table, which says so; a kernel of ours is mended first.
bool can_be_written(const BenchResults& results);
/// The rows of `problems`, the ladder's, in results of its parts, as if they had been measured by one command. Throws
/// DataError: a row is in none of them or lacks an implementation (--impl), or they were not measured alike (machine,
/// versions, --quick).
BenchResults joined_parts(const std::vector<BenchResults>& parts,
                          const std::vector<BenchProblem>& problems);
/// Replaces the table; every other byte stays. Throws ConfigError, RunError.
void write_ladder(const Ladder& ladder, const BenchResults& results);

/// What bounds an implementation in a pass of a problem; lab/ncu_report.h has the words.
struct LadderBound {
  std::string problem, pass, implementation, text;
};
/// A row each, and where, when and how they were counted.
std::string bounds_markdown(const std::vector<LadderBound>& bounds,
                            const EnvironmentRecord& environment, const std::string& command,
                            const std::string& date);
/// Whether the page has the lines for them. Throws ConfigError if it has not.
void check_bounds(const Ladder& ladder);
/// Puts `markdown` there; of what bounds_markdown() wrote before, the rows that `markdown` has not, of other
/// passes say, stay before it, with the line that tells where they were counted. Throws ConfigError, RunError.
void write_bounds(const Ladder& ladder, const std::string& markdown);

/// For each problem a row for each implementation and a column for each pass, and where, when and
/// how it was measured.
std::string ladder_markdown(const BenchResults& results);

}  // namespace duet
