// The measured table in a layer's README, written by bench alone: between the lines
//   <!-- bench:conv2d -->
//   <!-- /bench -->
// of framework/layers/conv2d/README.md stands what the shapes of bench.yaml in that folder took. Other
// pages quote it (docs/pages.sh).
#pragma once

#include <filesystem>
#include <string>

#include "compare/results.h"
#include "device/device.h"

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
/// Replaces the table; every other byte stays. Throws ConfigError, RunError.
void write_ladder(const Ladder& ladder, const BenchResults& results);

/// For each problem a row for each implementation and a column for each pass, and where, when and
/// how it was measured.
std::string ladder_markdown(const BenchResults& results);

}  // namespace duet
