#include "compare/tables/accuracy_table.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "compare/results/outputs.h"
#include "compare/results/results_json.h"
#include "compare/tables/format.h"
#include "compare/tables/result_table.h"
#include "core/config.h"
#include "core/program.h"
#include "core/shell_word.h"
#include "core/write_file.h"
#include "data/set/fingerprint.h"
#include "net/yaml.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// Twelve digits; "" without a configuration.
std::string hash_of_config(const std::string& text) {
  if (text.empty()) return "";
  ConfigNode config = read_yaml(text, "config.yaml");
  config.erase("seed");
  if (ConfigNode* data = config.find("data")) data->erase("path");
  const std::string all = write_yaml(config);
  return fmt::format("{:016x}", hash_of(all.data(), all.size())).substr(0, 12);
}

// Whether the time of every epoch is known: a run may go on with another's, or have been interrupted.
bool is_whole(const RunRecord& run) {
  double next = 1;
  return std::all_of(run.epochs.begin(), run.epochs.end(), [&](const LoggedEpoch& epoch) {
    return double{epoch.epoch} == next++ && !std::isnan(epoch.seconds);
  });
}

TrainedRun trained_run(const fs::path& folder) {
  const RunRecord run = read_run(folder);
  const double done = run.epochs.empty() ? 0.0 : double{run.epochs.back().epoch};
  if (done == 0.0 || (!run.finished && !(done >= run.wanted_epochs))) {
    throw DataError(folder.string() + ": has not come to its end: " + format_whole(done) + " of " +
                    shown(run.wanted_epochs, format_whole) + " epochs are done; go on with '" +
                    as_started("trainer --config ") +
                    shell_word((folder / "config.yaml").string()) + " --resume last --out " +
                    shell_word(folder.string()) + "'");
  }
  const RunTimes times = times_of(run);
  TrainedRun result{.name = run.name,
                    .dataset = run.dataset.name,
                    .backend = run.backend,
                    .math = run.math,
                    .device = run.device,
                    .duet = run.duet,
                    .config = hash_of_config(run.config),
                    .seed = run.seed,
                    .epochs = run.epochs.back().epoch,
                    .accuracy = run.epochs.back().val_accuracy,
                    .best_accuracy = run.epochs.back().val_accuracy,
                    .val_loss = run.epochs.back().val_loss,
                    .metrics = run.epochs.back().metrics,
                    .seconds = is_whole(run) ? times.training + times.evaluation : kUnknown,
                    .images_per_second = times.images / times.training,
                    .goal = run.goal};
  for (const LoggedEpoch& epoch : run.epochs) {
    result.best_accuracy = std::max(result.best_accuracy, epoch.val_accuracy);
  }
  return result;
}

// Tables that were written before know no configuration.
bool same_group(const TrainedRun& a, const TrainedRun& b) {
  const bool same_config = a.config.empty() || b.config.empty() || a.config == b.config;
  const std::string goal_a = a.goal ? a.goal->text() : "", goal_b = b.goal ? b.goal->text() : "";
  return same_config && a.name == b.name && a.dataset == b.dataset && a.backend == b.backend &&
         a.math == b.math && a.device == b.device && double{a.epochs} == double{b.epochs} &&
         goal_a == goal_b;
}

void add(const TrainedRun& run, const std::string& source, std::vector<TrainedRun>* runs) {
  const auto same = std::find_if(runs->begin(), runs->end(), [&](const TrainedRun& other) {
    return same_group(run, other) && run.seed == other.seed;
  });
  if (same == runs->end()) {
    runs->push_back(run);
  } else {
    spdlog::warn("{}: {} by {}, seed {}, stands there twice; what {} says counts", source, run.name,
                 run.backend, run.seed, source);
    *same = run;
  }
}

using RunGroup = std::vector<TrainedRun>;  // at least one run

std::vector<RunGroup> groups_of(const AccuracyTable& table) {
  std::vector<RunGroup> groups;
  for (const TrainedRun& run : table.runs) {
    const auto group = std::find_if(groups.begin(), groups.end(),
                                    [&](const RunGroup& each) { return same_group(each[0], run); });
    (group == groups.end() ? groups.emplace_back() : *group).push_back(run);
  }
  return groups;
}

// A column of a group: what of() gives of each run.
template <class Of>
double mean(const RunGroup& group, const Of& of) {
  double sum = 0.0;
  for (const TrainedRun& run : group) sum += std::invoke(of, run);
  return sum / static_cast<double>(group.size());
}

// On the validation data.
double value_of(const TrainedRun& run, const std::string& metric) {
  const auto found = std::find_if(run.metrics.begin(), run.metrics.end(),
                                  [&](const auto& each) { return each.name == metric; });
  return found == run.metrics.end() ? kUnknown : found->validation;
}

std::vector<std::string> metrics_of(const AccuracyTable& table) {
  std::vector<std::string> names;
  for (const TrainedRun& run : table.runs) {
    for (const LoggedMetric& metric : run.metrics) {
      if (std::find(names.begin(), names.end(), metric.name) == names.end()) {
        names.push_back(metric.name);
      }
    }
  }
  return names;
}

bool has_accuracy(const TrainedRun& run) { return !std::isnan(run.accuracy); }

std::string range_of_accuracy(const RunGroup& group) {
  const auto [low, high] =
      std::minmax_element(group.begin(), group.end(),
                          [](const auto& a, const auto& b) { return a.accuracy < b.accuracy; });
  return shown(low->accuracy, format_accuracy) + " to " + shown(high->accuracy, format_accuracy);
}

std::string seeds_of(const RunGroup& group) {
  std::vector<std::string> seeds;
  for (const TrainedRun& run : group) seeds.push_back(std::to_string(run.seed));
  return join(seeds);
}

bool reached(const TrainedRun& run) { return run.goal && !std::isnan(run.goal->epoch); }

// "98.90%", and how many runs reached it where not all did.
Cell goal_of(const RunGroup& group) {
  if (!group[0].goal) return {kNotMeasured};
  const auto count = std::count_if(group.begin(), group.end(), reached);
  const bool all = count == static_cast<std::ptrdiff_t>(group.size());
  const std::string goal = group[0].goal->text();
  if (all) return {goal, Tone::kGood};
  return {goal + ", reached by " + std::to_string(count) + " of " + std::to_string(group.size()),
          Tone::kBad};
}

// Unknown unless every run reached it.
double seconds_to_goal(const RunGroup& group) {
  return mean(group, [](const TrainedRun& run) {
    return reached(run) ? double{run.goal->seconds} : kUnknown;
  });
}

std::vector<std::string> distinct(const AccuracyTable& table, std::string TrainedRun::*of) {
  std::vector<std::string> values;
  for (const TrainedRun& run : table.runs) {
    if (std::find(values.begin(), values.end(), run.*of) == values.end()) values.push_back(run.*of);
  }
  return values;
}

ResultTable rows_of(const AccuracyTable& table) {
  const std::vector<RunGroup> groups = groups_of(table);
  const auto first = [](std::string TrainedRun::*of) {
    return [of](const RunGroup& group) { return group[0].*of; };
  };
  TableOf rows(groups);
  rows.words("network", first(&TrainedRun::name))
      .words("data", first(&TrainedRun::dataset))
      .words("by", first(&TrainedRun::backend))
      .words("math", first(&TrainedRun::math))
      .numbers(
          "epochs", [](const RunGroup& group) { return double{group[0].epochs}; }, format_whole)
      .numbers("seeds", seeds_of);
  if (std::any_of(table.runs.begin(), table.runs.end(), has_accuracy)) {
    rows.numbers(
            "accuracy, mean",
            [](const RunGroup& group) { return mean(group, &TrainedRun::accuracy); },
            format_accuracy)
        .numbers("accuracy", range_of_accuracy);
  }
  if (!std::all_of(table.runs.begin(), table.runs.end(), has_accuracy)) {
    rows.numbers("val_loss, mean",
                 [](const RunGroup& group) { return mean(group, &TrainedRun::val_loss); });
  }
  for (const std::string& metric : metrics_of(table)) {
    rows.numbers("val_" + metric + ", mean", [&](const RunGroup& group) {
      return mean(group, [&](const TrainedRun& run) { return value_of(run, metric); });
    });
  }
  rows.numbers("goal", goal_of)
      .numbers("time to goal", seconds_to_goal, format_seconds)
      .numbers(
          "time", [](const RunGroup& group) { return mean(group, &TrainedRun::seconds); },
          format_seconds)
      .numbers(
          "images/s",
          [](const RunGroup& group) {
            return std::round(mean(group, &TrainedRun::images_per_second));
          },
          format_whole);
  if (distinct(table, &TrainedRun::device).size() > 1) {
    rows.words("on", first(&TrainedRun::device));
  }
  return rows;
}

}  // namespace

AccuracyTable read_accuracies(const std::vector<std::string>& sources) {
  AccuracyTable table{.schema = kAccuracySchema};
  for (const std::string& source : sources) {
    if (source.ends_with(".json")) {
      const auto written = load_as<AccuracyTable>(source, "trainer accuracy", kAccuracySchema);
      for (const TrainedRun& run : written.runs) add(run, source, &table.runs);
    } else {
      add(trained_run(source), source, &table.runs);
    }
  }
  return table;
}

std::string accuracy_text(const AccuracyTable& table) { return console_text(rows_of(table)); }

std::string accuracy_markdown(const AccuracyTable& table) {
  return "# Accuracy\n\n"
         "Written by `trainer accuracy` from the folders of trainings; runs of one configuration "
         "that differ in their seed are a row. The accuracy, like the loss and metrics of networks "
         "that have no accuracy, is that of the last epoch on the "
         "validation data; its mean, least and largest are over the seeds. The goal is "
         "`train.goal` "
         "of the configuration, and the time to it that until the end of the first epoch that "
         "reached it, where every run did. Times are means over the seeds, of training and of the "
         "evaluation after each epoch, without start-up; images/s are those of training "
         "alone.\n\n" +
         markdown_table(rows_of(table)) + "\n" +
         markdown_text(join(distinct(table, &TrainedRun::device)) + ". Duet " +
                       join(distinct(table, &TrainedRun::duet)) + ".") +
         "\n";
}

namespace {

// The files that the table is made of. `rows`, the file beside the table that holds its rows, may be read and
// written by one call, so it does not count.
std::vector<NamedFile> inputs_of(const std::vector<std::string>& sources, const std::string& rows) {
  std::vector<NamedFile> inputs;
  for (const std::string& source : sources) {
    if (source.ends_with(".json")) {
      if (rows.empty() || !same_file(source, rows))
        inputs.push_back({"the table " + source, source});
    } else {
      const std::vector<NamedFile> files = inputs_of_run(source);
      inputs.insert(inputs.end(), files.begin(), files.end());
    }
  }
  return inputs;
}

}  // namespace

void run_accuracy(const AccuracyOptions& options) {
  const std::string beside =
      options.write.empty() ? "" : fs::path(options.write).replace_extension(".json").string();
  if (!options.write.empty() && !options.write.ends_with(".md")) {
    throw ConfigError("--write " + options.write + ": expected a file that ends in .md");
  }
  check_outputs({{"--write", options.write}, {"--write", beside}},
                inputs_of(options.sources, beside));
  std::error_code error;
  if (!beside.empty() && fs::exists(beside, error)) {
    try {
      load_as<AccuracyTable>(beside, "trainer accuracy", kAccuracySchema);
    } catch (const DataError& e) {
      throw ConfigError("--write " + options.write + " writes " + beside +
                        " too, and that is there and is something else: " + e.what());
    }
  }
  const AccuracyTable table = read_accuracies(options.sources);
  std::fputs(accuracy_text(table).c_str(), stdout);
  if (options.write.empty()) return;
  write_file(beside, file_text(JsonWriter::write(table)));
  write_file(options.write, accuracy_markdown(table));
  spdlog::info("the table: {} and {}", options.write, beside);
}

}  // namespace duet
