// What one process of a watch does: it gets ready, waits for a file to change, examines that and ends.
// What the kernels do to the process is over with it, and everything that takes long and does not
// depend on them is done before the user saves.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/child.h"
#include "device/device.h"
#include "lab/bench.h"
#include "lab/watch_text.h"
#include "user_kernels/kernel_file.h"

namespace duet {

/// What the processes before have found out.
struct WatchState {
  std::vector<KernelFile> files;  // as they were examined; one without a hash was not yet
  std::optional<EnvironmentRecord> environment;
  bool times_measured = false;
  std::vector<KeptTime> times;  // what the kernels are compared with
};

/// What a process tells, each of these if it is there.
struct WatchMessage {
  std::string text;                                   // for the screen
  std::optional<EnvironmentRecord> environment = {};  // with what was measured of it
  std::optional<std::vector<KeptTime>> times = {};    // measured now
  struct Begun {
    Count file;  // of WatchState::files
    std::string hash;
    void fields(auto& f) { f("file", file)("hash", hash); }
  };
  std::optional<Begun> begun = {};  // the examination of a file
  struct Row {
    std::string problem, pass;
    void fields(auto& f) { f("problem", problem)("pass", pass); }
  };
  std::optional<Row> row = {};  // that it begins
  std::string entry = {};       // for the file's history, as JSON
  bool done = false;            // the examination has ended
  void fields(auto& f) {
    f("text", text).maybe("environment", environment).maybe("times", times);
    f.maybe("begun", begun).maybe("row", row).maybe("entry", entry)("done", done);
  }
};

/// Returns when it has examined a file, or the user asked to stop. Throws what keeps the files from
/// being examined at all. REQUIRES: an InterruptGuard; what measure_in_child() does.
void run_watch_child(const BenchOptions& options, const WatchState& state, const Send& send);

/// A result for the history of a file, of the source with that hash.
nlohmann::json history_entry(const std::string& hash, const WatchMessage::Row& row,
                             const std::string& machine, bool right);

}  // namespace duet
