// bench --once and --sanitize: implementations run once, for profilers, and on a GPU under NVIDIA's
// compute-sanitizer, which sees what no comparison of results can: accesses far beyond a buffer,
// races in shared memory, reads of memory that nobody wrote.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "core/error.h"
#include "layers/layer.h"

namespace duet {

struct ImplCall {
  const Layer* layer;
  Pass pass;
  std::string id;
};

/// Runs the passes that each call needs, then its own, once, on random data, and prints a line a call, also
/// where of several one cannot be prepared; checks and times nothing. Every tensor is an allocation of its own, exactly as large as it must be, so
/// that a sanitizer sees each access beyond it. Waits for the device.
ExitCode run_once(const std::vector<ImplCall>& calls, Device device, std::ostream& out);

/// What one tool of compute-sanitizer found.
struct SanitizerReport {
  int errors = 0;
  std::string first;      // the first error in its words; empty without errors
  bool finished = false;  // false if there is no summary: the tool or the process failed
};
/// Reads what the tool printed.
SanitizerReport read_sanitizer_report(const std::string& text);

/// The program `name` of the CUDA toolkit, which `option` needs, in one of the folders of `path`, which is
/// written as $PATH is, or in CUDA's own. Throws UnsupportedError that says how to get it, from `package`.
std::string find_cuda_tool(const std::string& name, const std::string& option,
                           const std::string& package, const std::string& path);
std::string find_sanitizer(const std::string& path);

/// The range (device/range.h) in which run_once() runs the call's own pass: "once linear n=4,in=5,out=3
/// forward custom_naive". No other range begins so.
std::string once_range(const ImplCall& call);

/// For a shell: the program `bench` that runs `call` once.
std::string once_command(const ImplCall& call, const std::string& bench);
/// "conv2d n=64,c=64,... forward custom_naive:"
std::string text_of(const ImplCall& call);

/// Runs every call as `bench ... --once` of the program `bench` under each tool of `sanitizer` and
/// prints a line a call. True if nothing was found. Throws RunError if a tool did not finish, with
/// what it printed.
bool sanitize(const std::vector<ImplCall>& calls, const std::string& sanitizer,
              const std::string& bench, std::ostream& out);
/// The same with the sanitizer of this machine and this program, which must be bench.
/// kExitComparison if something was found.
ExitCode sanitize(const std::vector<ImplCall>& calls, std::ostream& out);

}  // namespace duet
