#include "compare/results/run_record.h"

#include <spdlog/spdlog.h>

#include <cmath>

#include "compare/results/results_json.h"
#include "compare/tables/format.h"
#include "core/input_file.h"
#include "core/program.h"
#include "core/shell_word.h"
#include "data/format/image_file.h"
#include "net/json_file.h"
#include "train/checkpoint/safetensors.h"
#include "train/evaluate/filters.h"
#include "train/run/run_folder.h"

namespace duet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr uint64_t kMostMetricsBytes = uint64_t{256} << 20;
constexpr uint64_t kMostJsonBytes = uint64_t{64} << 20;  // a matrix of 1024 classes has about 4 MiB

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw DataError(path.string() + ": " + why);
}

// "; the newest in runs/ is runs/first", or nothing where there is none.
std::string newest_run() {
  std::error_code error;
  fs::path newest;
  fs::file_time_type newest_time{};
  for (const auto& entry : fs::directory_iterator("runs", error)) {
    const auto time = fs::last_write_time(entry.path() / "metrics.jsonl", error);
    if (error || (!newest.empty() && time <= newest_time)) continue;
    newest = entry.path();
    newest_time = time;
  }
  return newest.empty() ? "" : "; the newest in runs/ is " + newest.string();
}

// What is wrong with a folder that is not a run's.
void check_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) {
    refuse(folder, "there is no such folder; name the folder of a run" + newest_run());
  }
  if (!fs::is_directory(folder, error)) {
    const bool within = fs::exists(folder.parent_path() / "metrics.jsonl", error);
    refuse(folder, "is a file; name the folder of a run" +
                       (within ? ", " + folder.parent_path().string() : newest_run()));
  }
  for (const char* file : {"metrics.jsonl", "run.json"}) {
    if (fs::exists(folder / file, error)) continue;
    const bool profile = fs::exists(folder / "profile.json", error);
    refuse(folder, std::string("is not the folder of a training: there is no ") + file + " in it" +
                       (profile ? "; 'trainer --profile' left a profile there, profile.json" : "") +
                       newest_run());
  }
}

template <class T>
T read_object(const fs::path& path, const std::string& what_to_do, json* object = nullptr) {
  const std::string text = read_input_file(path, kMostJsonBytes);
  try {
    const json value = parse_json(text);
    if (object) *object = value;
    return JsonReader::read<T>(value);
  } catch (const DataError& error) {
    refuse(path, error.what() + what_to_do);
  }
}

// Of "train_psnr" and "val_psnr": those that LoggedEpoch has no member for.
std::vector<LoggedMetric> metrics_of(const json& epoch) {
  std::vector<LoggedMetric> metrics;
  for (const auto& [key, value] : epoch.items()) {
    if (!key.starts_with("val_") || !value.is_number()) continue;
    const std::string name = key.substr(4);
    if (name == "loss" || name == "accuracy" || name == "top5") continue;
    const auto train = epoch.find("train_" + name);
    const bool known = train != epoch.end() && train->is_number();
    metrics.push_back({name, known ? train->get<double>() : kUnknown, value.get<double>()});
  }
  return metrics;
}

void read_line(const std::string& line, RunRecord* run) {
  const json object = parse_json(line);
  if (!object.is_object()) throw DataError("not an object");
  const json event = object.value("event", json());
  if (event == "epoch") {
    run->epochs.push_back(JsonReader::read<LoggedEpoch>(object));
    run->epochs.back().metrics = metrics_of(object);
  } else if (event == "step") {
    run->steps.push_back(JsonReader::read<LoggedStep>(object));
  } else {
    throw DataError("neither a step nor an epoch");
  }
}

void read_metrics(const fs::path& path, RunRecord* run) {
  const std::string text = read_input_file(path, kMostMetricsBytes);
  size_t number = 0, start = 0;
  for (size_t end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    ++number;
    try {
      read_line(text.substr(start, end - start), run);
    } catch (const DataError& error) {
      const std::string place = std::to_string(number);
      throw DataError(path.string() + ":" + place + ": " + error.what() +
                      ". Nothing else depends on this line: remove it (sed -i " + place + "d " +
                      path.string() + ") and try again");
    }
  }
  run->cut_short = start < text.size();
  if (run->epochs.empty() && run->steps.empty()) {
    refuse(path,
           "nothing is logged yet: no epoch has ended, and no train.log_every steps are done; "
           "try again when the training has gone on");
  }
}

void check_matrix(const fs::path& path, const BestEvaluation& evaluation) {
  const size_t classes = evaluation.classes.size();
  bool square = evaluation.confusion.empty() || evaluation.confusion.size() == classes;
  for (const auto& row : evaluation.confusion) square = square && row.size() == classes;
  if (!square) refuse(path, "'confusion' has not a row and a column for each of 'classes'");
}

bool is_filter(const safetensors::Entry& entry) {
  return entry.shape.size() == 4 && entry.dtype == DType::kFloat32 && entry.bytes() > 0 &&
         !entry.name.starts_with("optimizer.");
}

// The first convolution's: tensors stand in the order of the layers.
void read_filters(const fs::path& folder, RunRecord* run) {
  try {
    const safetensors::File file = safetensors::read(find_best_checkpoint(folder));
    for (const safetensors::Entry& entry : file.entries()) {
      if (!is_filter(entry)) continue;
      const auto* values = static_cast<const float*>(entry.data);
      const std::vector<float> weights(values, values + entry.bytes() / sizeof(float));
      run->filters = entry.name;
      run->filters_png = png_of(filter_picture(weights, entry.shape));
      return;
    }
  } catch (const DataError& error) {
    spdlog::warn("no filters are shown: {}", error.what());
  } catch (const ConfigError&) {  // no epoch has ended: there is no checkpoint
  }
}

}  // namespace

std::string RunGoal::text() const {
  if (metric.empty()) return shown(val_accuracy, format_accuracy);
  return metric + " " + shown(value, format_significant);
}

RunTimes times_of(const RunRecord& run) {
  RunTimes times;
  for (const LoggedEpoch& epoch : run.epochs) {
    if (std::isnan(epoch.seconds) || std::isnan(epoch.images_per_second)) continue;
    times.images += epoch.images_per_second * epoch.seconds;
    times.training += epoch.seconds;
    if (!std::isnan(epoch.evaluation_seconds)) times.evaluation += epoch.evaluation_seconds;
  }
  return times;
}

RunRecord read_run(const fs::path& folder) {
  check_folder(folder);
  json object;
  RunRecord run = read_object<RunRecord>(
      folder / "run.json",
      "; '" + as_started("trainer --config ") + shell_word((folder / "config.yaml").string()) +
          " --resume last --out " + shell_word(folder.string()) + "' writes it anew",
      &object);
  const json versions = object.value("versions", json::object());
  for (const auto& [name, version] : versions.items()) {
    if (version.is_string()) run.versions.emplace_back(name, version.get<std::string>());
  }
  std::error_code error;
  if (fs::exists(folder / "config.yaml", error)) {
    run.config = read_input_file(folder / "config.yaml", kMostJsonBytes);
  }
  read_metrics(folder / "metrics.jsonl", &run);
  const fs::path evaluation = folder / "evaluation.json";
  if (fs::exists(evaluation, error)) {
    run.evaluation = read_object<BestEvaluation>(
        evaluation, "; without this file the report has no classes: remove it and try again");
    check_matrix(evaluation, *run.evaluation);
  }
  read_filters(folder, &run);
  return run;
}

std::vector<NamedFile> inputs_of_run(const std::string& folder) {
  std::vector<NamedFile> inputs;
  for (const fs::path& file : files_in_run(folder)) {
    inputs.push_back({"the run in " + folder, file.string()});
  }
  return inputs;
}

}  // namespace duet
