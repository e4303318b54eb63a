// Runs the trainer, or another application, as people do: as a process, in a folder of its own.
#pragma once

#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {

/// What a process left.
struct Outcome {
  int code = -1;                    // exit code, or 128 + the signal that ended it
  std::string out;                  // standard output
  std::string err;                  // standard error
  double seconds_after_signal = 0;  // run_until()
};

/// A folder with tiny.yaml in which trainers run. Nothing of the user's environment that the
/// trainer reads (DUET_DATA, HOME, NO_COLOR, ...) reaches them.
class TrainerFolder : public TemporaryFolder {
 public:
  explicit TrainerFolder(std::string program = DUET_TRAINER);

  struct Options {
    std::vector<std::string> environment = {};   // "NAME=value", beside PATH
    std::string preload = {};                    // a library that comes before all others
    std::optional<size_t> most_file_bytes = {};  // a write beyond fails, as on a full disk
    bool terminal = false;                       // standard error is a terminal
    std::vector<int> closed = {};                // of the descriptors 0 to 2
    bool cublaslt = false;                       // NVIDIA's, see preload/cublaslt.cpp
  };
  /// Runs `trainer ARGUMENTS...` to its end; words are split at blanks, and '' is an empty one.
  Outcome run(const std::string& arguments, const Options& options) const;
  Outcome run(const std::string& arguments) const { return run(arguments, {}); }

  /// Starts `trainer ARGUMENTS...`, waits until `started` has content, or holds `text`, sends
  /// `signal` and waits for the end. "stderr" is what the process logs.
  Outcome run_until(const std::string& arguments, const std::filesystem::path& started, int signal,
                    const std::string& text, const Options& options) const;
  Outcome run_until(const std::string& arguments, const std::filesystem::path& started, int signal,
                    const std::string& text = "") const {
    return run_until(arguments, started, signal, text, {});
  }

 private:
  pid_t start(const std::string& arguments, const Options& options, int terminal) const;
  Outcome finish(pid_t process) const;

  const std::string program_;
};

/// A network of 620 parameters on 64 + 32 images of 8x8 in 4 classes, batch 16, 2 epochs, in six
/// lines of layers from line 6.
extern const char* const kTinyNetwork;

/// The lines of `folder`/metrics.jsonl with that "event".
std::vector<nlohmann::json> metrics(const TrainerFolder& folder, const std::string& run,
                                    const std::string& event);

/// The values of all tensors of a checkpoint, by name, and its step.
std::map<std::string, std::string> tensors(const std::filesystem::path& checkpoint);

}  // namespace duet

/// The exit code, and that the log has each of the parts that follow.
#define EXPECT_OUTCOME(outcome, expected_code, ...)                         \
  do {                                                                      \
    const ::duet::Outcome& o = outcome;                                     \
    EXPECT_EQ(o.code, expected_code) << o.err << o.out;                     \
    EXPECT_TRUE(::duet::has(o.err, std::vector<std::string>{__VA_ARGS__})); \
  } while (0)
