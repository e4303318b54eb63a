// The one product of a comparison: results.json. Tables, Markdown and the report are made from it
// alone, on any machine. docs/benchmarking.md describes its keys.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "device/clock_monitor.h"
#include "device/host_load.h"
#include "measure/ceilings.h"
#include "measure/timing.h"

namespace duet {

inline constexpr const char* kResultsSchema = "duet.compare/1";
/// The verdict on arms that run the same implementations on the same problem: there is none.
inline constexpr const char* kSameCode = "same code";

/// {"median", "p20", "p80"} in microseconds.
nlohmann::json microseconds_json(const Summary& seconds);
/// How fast arm `a` is beside arm `b`: {"a", "b", "speedup", "low", "high", "verdict"}. For times
/// of the same code {"a", "b", "verdict": "same code", "spread"}: the 20th and 80th percentile of
/// all of them over their median.
nlohmann::json ratio_json(size_t a, size_t b, const Times& times_a, const Times& times_b);
/// The first arm against each of the others: a list of those. times[i] is arm i's, or nullptr if it
/// was not measured.
nlohmann::json ratios_json(const std::vector<const Times*>& times);
/// The machine, the libraries and Duet's version.
nlohmann::json environment_json();
nlohmann::json ceilings_json(const Ceilings& ceilings, Device device);
nlohmann::json clocks_json(const ClockReport& report);
nlohmann::json load_json(const LoadReport& report);
/// A number, or null where it is not finite (JSON has no NaN).
nlohmann::json number_json(double value);

/// "2026-11-21T12:00:00Z"
std::string now_text();

/// The "summary": what a reader needs first. Sections that are missing are left out of it.
///   ok              no arm is wrong anywhere
///   first_mismatch  null, or where arms first part beyond limits: layer and pass, or the training
///   headlines       sentences: who is how much faster in what, accuracies, what differs
nlohmann::json summarise_results(const nlohmann::json& results);

/// Throws DataError, with the file and what is wrong in it: not there, not JSON, not results of
/// compare, or of another version of them, or a section of the wrong form. The "summary" is made
/// anew.
nlohmann::json load_results(const std::filesystem::path& path);
/// The text of such a file.
std::string results_file_text(const nlohmann::json& results);

/// What --fail-on names.
struct FailOn {
  bool mismatch = false;
  bool slower = false;
  double ratio = 1.0;  // of slower
};
/// Reads "mismatch", "slower" and "slower:0.95". Throws ConfigError with every mistake.
FailOn read_fail_on(const std::vector<std::string>& words);
/// Why a run counts as failed, a line each. `slower` strikes where the first arm's speed, in a
/// whole step of training or inference, is below `ratio` times another arm's with all of its
/// interval; for a ratio of at most 1 the verdict must also be neither "same" nor "unclear". What
/// has nothing to compare fails, too. The results' own "summary" is not looked at.
std::vector<std::string> failures(const nlohmann::json& results, const FailOn& fail_on);

}  // namespace duet
