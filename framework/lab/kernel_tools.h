// bench --ncu and --sass: what NVIDIA's tools say of kernels, beside the times.
#pragma once

#include "lab/bench.h"
#include "lab/ladder.h"
#include "lab/sanitize.h"

namespace duet {

/// Runs every call as `bench ... --once` of the program `bench` under Nsight Compute, and prints what that
/// says of each kernel: what bounds it, how busy it keeps the GPU, what its warps wait for. Throws RunError
/// if the tool did not finish, with what it printed.
void profile_calls(const std::vector<ImplCall>& calls, const std::string& ncu,
                   const std::string& bench, std::ostream& out);
/// The same with the tool of this machine and this program, which must be bench.
void profile_calls(const std::vector<ImplCall>& calls, std::ostream& out);

/// What bounds each call, as text (lab/ncu_report.h), where `command` runs all of them once; `tell` hears
/// what was found. Only the kernels of the calls' own passes are counted. Throws as profile_calls().
std::vector<std::string> find_bounds(const std::vector<ImplCall>& calls, const std::string& ncu,
                                     const std::string& command, std::ostream& tell);
/// The same of the ladder of `options`, with the tool of this machine and this program, which must be bench.
std::vector<std::string> find_bounds(const std::vector<ImplCall>& calls,
                                     const BenchOptions& options, const Ladder& ladder,
                                     std::ostream& tell);

/// Prints the machine code of the kernels of files for the problems and passes of `options`, launch by launch,
/// by cuobjdump of `path` (as $PATH). Needs no GPU. Throws UnsupportedError without the tool, ConfigError where
/// no file is of the layer or none can be compiled.
void show_machine_code(const BenchOptions& options, const std::string& path, std::ostream& out);

}  // namespace duet
