// Writes made-up results and their report, for the browser test.
// usage: write_report two|three|six|mismatch|nasty|layers|training|throughput|empty RESULTS.json
// FILE.html or: write_report from RESULTS.json FILE.html, which makes the report of any results; "run"
// is the report of a training, without results.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "compare/report/report.h"
#include "compare/report/run_report.h"
#include "compare/results/results_json.h"
#include "compare/results_fixture.h"
#include "compare/run_fixture.h"

namespace {

constexpr int kSkipped = 77;

nlohmann::json only(const std::string& section) {
  nlohmann::json results = duet::results_fixture();
  for (const char* other : {"layers", "training", "throughput"}) {
    if (section != other) results.erase(other);
  }
  return results;
}

nlohmann::json make(const std::string& kind) {
  if (kind == "two") return duet::results_fixture(2);
  if (kind == "three") return duet::results_fixture(3);
  if (kind == "six") return duet::results_fixture(6);
  if (kind == "mismatch") return duet::mismatch_fixture();
  if (kind == "nasty") return duet::nasty_fixture();
  return only(kind);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: write_report KIND RESULTS.json FILE.html\n");
    return 2;
  }
  if (!duet::report_available()) {
    std::fprintf(stderr, "this build has no chart library\n");
    return kSkipped;
  }
  if (std::string(argv[1]) == "run") {
    const duet::TemporaryFolder folder;
    duet::write_run_fixture(folder, "run");
    std::ofstream(argv[2]) << "{}";
    std::ofstream(argv[3]) << duet::run_report_html(duet::read_run(folder / "run"));
    return 0;
  }
  duet::Results results;
  if (std::string(argv[1]) == "from") {
    results = duet::load_results(argv[2]);
  } else {
    if (std::string(argv[1]) != "empty") results = duet::results_from(make(argv[1]));
    std::ofstream(argv[2]) << duet::to_json(results).dump();
  }
  std::ofstream(argv[3]) << duet::report_html(results);
  return 0;
}
