#include "train/step/profile.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/number_text.h"
#include "measure/time/timing.h"
#include "net/table.h"

namespace duet {
namespace {

constexpr int kRepetitions = 20;  // in one graph
constexpr TimingPlan kTiming = {.block_seconds = 0.006, .rounds = 3, .most_rounds = 3};

// Of one call of `run`, which queues work on the context.
double seconds_per_call(Context& context, const std::function<void()>& run) {
  return time_interleaved({Workload::of(context, run)}, kTiming)[0].summary().median;
}

double microseconds_of(Training& training, const Operation& operation) {
  Context& context = training.context();
  if (context.device() == Device::kCpu) {
    return 1e6 * seconds_per_call(context, operation.queue);
  }
  StepGraph graph(context, [&] {
    for (int i = 0; i < kRepetitions; ++i) operation.queue();
  });
  return 1e6 * seconds_per_call(context, [&] { graph.launch(); }) / kRepetitions;
}

std::string fixed(double value) { return printed("%.2f", value); }

}  // namespace

Profile profile_step(Training& training) {
  Profile profile;
  const int64_t steps = training.steps_at_once();
  profile.step_microseconds = 1e6 *
                              seconds_per_call(training.context(), [&] { training.step(steps); }) /
                              static_cast<double>(steps);
  training.stage();
  for (const Operation& operation : training.program()) {
    const double microseconds = microseconds_of(training, operation);
    profile.rows.push_back({operation.layer, operation.pass, operation.implementation,
                            operation.problem(), operation.workspace_bytes(), microseconds});
    profile.sum_microseconds += microseconds;
  }
  return profile;
}

std::string profile_table(const Profile& profile) {
  std::vector<std::vector<std::string>> rows = {
      {"layer", "pass", "implementation", "us", "share", "problem"}};
  const auto share = [&](double us) { return fixed(100.0 * us / profile.sum_microseconds) + "%"; };
  std::set<std::string> told;  // the problem is long, and the same in all passes of a layer
  for (const ProfileRow& row : profile.rows) {
    rows.push_back({row.layer, row.pass, row.implementation, fixed(row.microseconds),
                    share(row.microseconds), told.insert(row.layer).second ? row.problem : ""});
  }
  rows.push_back({"sum", "", "", fixed(profile.sum_microseconds)});
  rows.push_back({"step", "", "", fixed(profile.step_microseconds)});
  rows.push_back({"gap", "", "", fixed(profile.step_microseconds - profile.sum_microseconds)});
  return format_table(rows);
}

nlohmann::json profile_json(const Profile& profile) {
  nlohmann::json rows = nlohmann::json::array();
  for (const ProfileRow& row : profile.rows) {
    rows.push_back({{"layer", row.layer},
                    {"pass", row.pass},
                    {"implementation", row.implementation},
                    {"problem", row.problem},
                    {"workspace_bytes", row.workspace_bytes},
                    {"microseconds", row.microseconds},
                    {"share", row.microseconds / profile.sum_microseconds}});
  }
  return {{"step_microseconds", profile.step_microseconds},
          {"sum_microseconds", profile.sum_microseconds},
          {"rows", rows}};
}

}  // namespace duet
