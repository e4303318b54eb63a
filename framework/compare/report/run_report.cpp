#include "compare/report/run_report.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "compare/report/report_page.h"
#include "compare/report/report_parts.h"
#include "compare/results/outputs.h"
#include "compare/results/results_json.h"
#include "compare/tables/format.h"
#include "compare/tables/result_tables.h"
#include "compare/tables/table_cells.h"
#include "core/write_file.h"

namespace duet {
namespace {

using nlohmann::json;

constexpr size_t kMostPoints = 2000;  // of a curve; of more steps every k-th is shown
constexpr size_t kMostConfusions = 20;
constexpr size_t kMostMatrixClasses = 40;

ResultTable epoch_table(const RunRecord& run) {
  const auto has = [&](double LoggedEpoch::*value) {
    return std::any_of(run.epochs.begin(), run.epochs.end(),
                       [&](const auto& epoch) { return !std::isnan(epoch.*value); });
  };
  const bool accuracy = has(&LoggedEpoch::val_accuracy);
  TableOf table(run.epochs);
  table.numbers("epoch", &LoggedEpoch::epoch, format_whole)
      .numbers("train loss", &LoggedEpoch::train_loss, format_value);
  if (accuracy) table.numbers("train accuracy", &LoggedEpoch::train_accuracy, format_accuracy);
  table.numbers("validation loss", &LoggedEpoch::val_loss, format_value);
  if (accuracy) table.numbers("validation accuracy", &LoggedEpoch::val_accuracy, format_accuracy);
  if (has(&LoggedEpoch::val_top5)) {
    table.numbers("top-5 accuracy", &LoggedEpoch::val_top5, format_accuracy);
  }
  const auto metrics = run.epochs.empty() ? std::vector<LoggedMetric>() : run.epochs[0].metrics;
  for (const LoggedMetric& metric : metrics) {
    const auto of = [name = metric.name](const LoggedEpoch& epoch) {
      for (const LoggedMetric& each : epoch.metrics) {
        if (each.name == name) return each.validation;
      }
      return kUnknown;
    };
    table.numbers("validation " + metric.name, of, format_value);
  }
  return table.numbers("learning rate", &LoggedEpoch::learning_rate, format_value)
      .numbers("images/s", &LoggedEpoch::images_per_second, format_whole)
      .numbers("time", &LoggedEpoch::seconds, format_seconds)
      .numbers("evaluation", &LoggedEpoch::evaluation_seconds, format_seconds);
}

ResultTable class_table(const BestEvaluation& evaluation) {
  return TableOf(evaluation.classes)
      .words("class", &EvaluatedClass::name)
      .numbers("images", &EvaluatedClass::images, format_whole)
      .numbers("predicted", &EvaluatedClass::predicted, format_whole)
      .numbers("precision", &EvaluatedClass::precision, format_accuracy)
      .numbers("recall", &EvaluatedClass::recall, format_accuracy);
}

struct Confusion {
  std::string is, predicted;
  double images, share;  // share: of the class
};

ResultTable confusion_table(const BestEvaluation& evaluation) {
  std::vector<Confusion> rows;
  const auto& classes = evaluation.classes;
  for (size_t i = 0; i < evaluation.confusion.size(); ++i) {
    for (size_t j = 0; j < classes.size(); ++j) {
      const double images = evaluation.confusion[i][j];
      if (i == j || !(images > 0)) continue;
      rows.push_back({classes[i].name, classes[j].name, images, images / classes[i].images});
    }
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.images > b.images; });
  if (rows.size() > kMostConfusions) rows.resize(kMostConfusions);
  return TableOf(rows)
      .words("class", &Confusion::is)
      .words("predicted as", &Confusion::predicted)
      .numbers("images", &Confusion::images, format_whole)
      .numbers("share of the class", &Confusion::share, format_share);
}

ResultTable machine_table(const RunRecord& run) {
  std::vector<std::pair<std::string, std::string>> rows = {
      {"device", run.device},
      {"backend", run.backend},
      {"math", run.math},
      {"Duet", run.duet},
      {"data set", run.dataset.name},
      {"data from", run.dataset.source},
      {"seed", std::to_string(run.seed)},
      {"memory of the network", shown(run.memory_bytes, format_size)},
      {"ready after", shown(run.startup_seconds, format_seconds)}};
  if (run.dataset.left_out) {
    for (const std::string& sample : run.dataset.left_out->named) {
      rows.emplace_back("left out", sample);
    }
  }
  if (run.init_from) rows.emplace_back("began with", run.init_from->file);
  rows.insert(rows.end(), run.versions.begin(), run.versions.end());
  for (const std::string& change : run.changes) rows.emplace_back("changed", change);
  std::erase_if(rows, [](const auto& row) { return row.second.empty(); });
  using Row = std::pair<std::string, std::string>;
  return TableOf(rows).words("what", &Row::first).words("value", &Row::second);
}

std::vector<Figure> figures_of(const RunRecord& run) {
  std::vector<Figure> figures;
  if (!run.epochs.empty()) {
    const LoggedEpoch& last = run.epochs.back();
    const auto best = std::max_element(
        run.epochs.begin(), run.epochs.end(),
        [](const auto& a, const auto& b) { return a.val_accuracy < b.val_accuracy; });
    if (!std::isnan(best->val_accuracy)) {
      figures.push_back({"best validation accuracy", shown(best->val_accuracy, format_accuracy),
                         "after epoch " + format_whole(best->epoch) + " of " +
                             format_whole(last.epoch) + " done"});
    }
    figures.push_back({"validation loss", shown(last.val_loss, format_value),
                       "after epoch " + format_whole(last.epoch) + "; in training " +
                           shown(last.train_loss, format_value)});
    for (const LoggedMetric& metric : last.metrics) {
      figures.push_back({"validation " + metric.name, shown(metric.validation, format_value),
                         "after epoch " + format_whole(last.epoch) + "; in training " +
                             shown(metric.train, format_value)});
    }
    if (run.goal) {
      const bool reached = !std::isnan(run.goal->epoch);
      figures.push_back(
          {"to the goal of " + run.goal->text(),
           reached ? shown(run.goal->seconds, format_seconds) : "not reached",
           reached ? "after epoch " + format_whole(run.goal->epoch) + ", evaluations included"
                   : "in " + format_whole(last.epoch) + " epochs",
           reached ? Tone::kGood : Tone::kPlain});
    }
    if (const RunTimes times = times_of(run); times.training > 0) {
      figures.push_back({"images/s in training",
                         format_whole(std::round(times.images / times.training)),
                         "on " + run.device});
      figures.push_back({"time", format_seconds(times.training + times.evaluation),
                         format_seconds(times.training) + " of it training, the rest evaluation"});
    }
  }
  if (run.dataset.left_out) {
    figures.push_back({"samples left out", shown(run.dataset.left_out->count, format_whole),
                       "by data.on_error: skip; the last table names " +
                           std::to_string(run.dataset.left_out->named.size())});
  }
  figures.push_back({"parameters", shown(run.parameters, format_whole), run.backend});
  return figures;
}

// Lists of numbers, of more than kMostPoints every k-th.
json curves_json(const RunRecord& run) {
  std::vector<LoggedStep> steps;
  const size_t every = run.steps.size() / kMostPoints + 1;
  for (size_t i = every - 1; i < run.steps.size(); i += every) steps.push_back(run.steps[i]);
  json epochs = json::array();
  for (const LoggedEpoch& epoch : run.epochs) epochs.push_back(JsonWriter::write(epoch));
  return {{"epochs", epochs}, {"steps", JsonWriter::write(steps)}};
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t three = 0;
    for (size_t j = i; j < i + 3; ++j) {
      three = three << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0u);
    }
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[three >> shift & 63];
  }
  const size_t missing = (3 - bytes.size() % 3) % 3;
  return text.replace(text.size() - missing, missing, std::string(missing, '='));
}

json data_of(const RunRecord& run) {
  const BestEvaluation evaluation = run.evaluation.value_or(BestEvaluation());
  json names = json::array();
  for (const EvaluatedClass& each : evaluation.classes) names.push_back(each.name);
  const bool matrix = names.size() <= kMostMatrixClasses;
  return {{"curves", curves_json(run)},
          {"config", run.config},
          {"about", {run.device, run.dataset.name, run.duet.empty() ? "" : "Duet " + run.duet}},
          {"cut_short", run.cut_short},
          {"filters",
           {{"name", run.filters},
            {"picture",
             run.filters_png.empty() ? "" : "data:image/png;base64," + base64(run.filters_png)}}},
          {"confusion",
           {{"epoch", JsonWriter::write(evaluation.epoch)},
            {"classes", names},
            {"rows", matrix ? json(evaluation.confusion) : json::array()}}},
          {"tables",
           {{"figures", figures_json(figures_of(run))},
            {"epochs", table_json(epoch_table(run))},
            {"classes", table_json(class_table(evaluation))},
            {"confusions", table_json(confusion_table(evaluation))},
            {"network", table_json(arm_network_table({.network = run.network}))},
            {"machine", table_json(machine_table(run))}}}};
}

}  // namespace

std::string run_report_html(const RunRecord& run) {
  return page_html({.kind = "Duet training",
                    .title = run.name.empty() ? "training" : run.name,
                    .sections = kTrainingSections,
                    .script = kTrainingScript,
                    .data = data_of(run),
                    .elsewhere = "Take the run's folder to a machine that has one, and make the "
                                 "report there: trainer report RUN."});
}

void run_report(const RunReportOptions& options) {
  const std::string out = options.out.empty()
                              ? (std::filesystem::path(options.run) / "report.html").string()
                              : options.out;
  const RunRecord run = read_run(options.run);
  if (run.cut_short) {
    spdlog::warn("the last line of {}/metrics.jsonl is cut short and left out", options.run);
  }
  check_outputs({{"--out", out}}, inputs_of_run(options.run));
  write_file(out, run_report_html(run));
  spdlog::info("report, for a browser: {}", out);
}

}  // namespace duet
