#include "train/checkpoint/checkpoint.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>
#include <type_traits>

#include "core/error.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "net/json_file.h"
#include "net/yaml.h"
#include "train/checkpoint/dataset_metadata.h"
#include "train/checkpoint/safetensors.h"
#include "train/run/config_changes.h"

namespace duet {
namespace {

constexpr const char* kAccuracy = "val_accuracy";
constexpr const char* kFormat = "duet checkpoint 2";
const std::string kOptimizer = "optimizer.";    // what names of its tensors begin with
const std::string kTrainedWeights = "weights";  // of Training::optimizer_states()
constexpr uint64_t kMostTensors = 8;  // of a parameter: itself, and what an optimizer keeps of it

// Doubles as hexadecimal floats, so that they come back with the same bits.
std::string exact(double value) { return printed("%a", value); }

std::span<Total> totals_of(StepState& state, const Training& training) {
  return std::span(state.totals).first(static_cast<size_t>(training.totals().count()));
}

std::string totals_text(std::span<const Total> totals) {
  std::string text;
  for (const Total& total : totals) {
    text += (text.empty() ? "" : " ") + exact(total.sum) + " " + exact(total.weight);
  }
  return text;
}

std::string state_name(const std::string& state, const Parameter& parameter) {
  return kOptimizer + state + "." + parameter.name;
}

// Every buffer a training saves: (prefix-maker, memory) of the parameters and of each optimizer
// state.
struct Saved {
  std::string name;
  const Parameter* parameter;
  Tensor memory;
};

// `trained` is where those with a gradient stand: the weights' own memory, or their average.
std::vector<Saved> saved_parameters(const Weights& weights, const Tensor& trained) {
  std::vector<Saved> list;
  for (const Parameter& parameter : weights.parameters()) {
    list.push_back(
        {parameter.name, &parameter, parameter.spec.trained() ? trained : weights.buffers()});
  }
  return list;
}

std::vector<Saved> saved_parameters(const Weights& weights) {
  return saved_parameters(weights, weights.trained());
}

std::vector<Saved> saved_tensors(Training& training) {
  const Weights& weights = training.weights();
  std::vector<Saved> list = saved_parameters(weights, training.result());
  for (const auto& [state, memory] : training.optimizer_states()) {
    for (const Parameter& parameter : weights.parameters()) {
      if (!parameter.spec.trained()) continue;
      list.push_back({state_name(state, parameter), &parameter, memory});
    }
  }
  return list;
}

std::vector<int64_t> dims_of(const Shape& shape) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

// That all of `list` is in the file.
void check_tensors(const std::filesystem::path& path, const safetensors::File& file,
                   const std::vector<Saved>& list) {
  for (const Saved& saved : list) {
    const bool of_optimizer = saved.name.starts_with(kOptimizer);
    const std::string misfit =
        safetensors::misfit(file, saved.name, saved.parameter->spec.desc.shape);
    if (!misfit.empty()) throw DataError(path.string() + ": its tensors do not fit: " + misfit);
    if (file.find(saved.name)) continue;
    std::vector<std::string> others;  // than the network's: it may be there under another name
    for (const safetensors::Entry& entry : file.entries()) {
      const bool known = std::any_of(list.begin(), list.end(),
                                     [&](const Saved& each) { return each.name == entry.name; });
      if (!known && entry.name.starts_with(kOptimizer) == of_optimizer) {
        others.push_back(printable(entry.name));
      }
    }
    throw DataError(path.string() + ": is a checkpoint of another " +
                    (of_optimizer ? "optimizer" : "network") + ": it has no '" + saved.name + "'" +
                    (others.empty() ? "" : "; it has: " + safetensors::names_text(others)));
  }
}

// That the file is of this network, before its data are read: any amount of them may be there. A
// parameter that the network does not have is as wrong as one that is missing.
void check_parameters(const std::filesystem::path& path, const safetensors::File& file,
                      const std::vector<Saved>& list) {
  check_tensors(path, file, list);
  std::set<std::string> known;
  uint64_t most = 0, found = 0;  // bytes
  for (const Saved& saved : list) {
    known.insert(saved.name);
    most += kMostTensors * saved.parameter->spec.desc.bytes();
  }
  for (const safetensors::Entry& entry : file.entries()) found += entry.bytes();
  for (const safetensors::Entry& entry : file.entries()) {
    if (entry.name.starts_with(kOptimizer) || known.count(entry.name)) continue;
    throw DataError(path.string() + ": is a checkpoint of another network: it has '" +
                    printable(entry.name) + "', which this network has not");
  }
  if (found > most) {
    throw DataError(path.string() + ": holds " + std::to_string(found) +
                    " bytes of tensors, more than any optimizer keeps for this network");
  }
}

// The values of `list`. REQUIRES: check_tensors() passed.
std::vector<std::vector<float>> values_of(const safetensors::File& file,
                                          const std::vector<Saved>& list) {
  std::vector<std::vector<float>> values;
  for (const Saved& saved : list) {
    const auto* data = static_cast<const float*>(file.find(saved.name)->data);
    values.emplace_back(data, data + saved.parameter->spec.desc.elements());
  }
  return values;
}

// A whole number or a floating-point number of the metadata, all of its text.
template <class T>
T number_of(const std::filesystem::path& path, const std::string& key, const std::string& text) {
  T value{};
  bool whole = false;
  if constexpr (std::is_integral_v<T>) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    whole = error == std::errc() && end == text.data() + text.size();
  } else {
    char* end = nullptr;
    value = static_cast<T>(read_number(text.c_str(), &end));  // also reads hexadecimal
    whole = !text.empty() && end == text.c_str() + text.size();
  }
  if (whole) return value;
  throw DataError(path.string() + ": is damaged: its metadata says '" + key + "' is '" +
                  printable(text) + "', expected a number");
}

// The metadata of a checkpoint that can be resumed from. What describes the network is read and checked at once, whoever
// asks.
class Metadata {
 public:
  Metadata(const std::filesystem::path& path, const safetensors::Metadata& map)
      : path_(path), map_(map) {
    if (text("format") != kFormat) {
      throw DataError(path_.string() + ": unknown checkpoint format '" + printable(text("format")) +
                      "'; expected '" + kFormat +
                      "'; a checkpoint of an earlier version can be evaluated, not resumed");
    }
    config_ =
        read("config", [](const std::string& text) { return read_yaml(text, "configuration"); });
    if (map_.count("dataset")) dataset_ = read("dataset", read_dataset_metadata);
    if (map_.count("init_from")) read("init_from", parse_json);
  }

  const std::string& text(const std::string& key) const {
    const auto found = map_.find(key);
    if (found == map_.end()) {
      throw DataError(path_.string() + ": cannot be resumed from: its metadata has no '" + key +
                      "'; it holds parameters only, or was not written by Duet");
    }
    return found->second;
  }
  template <class T>
  T number(const std::string& key) const {
    return number_of<T>(path_, key, text(key));
  }
  int64_t count(const std::string& key) const {
    const auto value = number<int64_t>(key);
    if (value >= 0) return value;
    damaged("'" + key + "' is '" + printable(text(key)) + "', expected a number of at least 0");
  }
  // As many as the training has now. Earlier versions knew one loss and its hits, and the first of
  // them weighed each step by its rows.
  void read_totals(std::span<Total> totals) const {
    std::vector<double> numbers;
    if (map_.count("totals")) {
      std::istringstream words(text("totals"));
      for (std::string word; words >> word;) {
        numbers.push_back(number_of<double>(path_, "totals", word));
        if (!std::isfinite(numbers.back())) damaged("'totals' holds " + printable(word));
      }
    } else {
      const auto counted = static_cast<double>(count("counted"));
      numbers = {number<double>("loss_sum"),
                 map_.count("weight_sum") ? score("weight_sum") : counted,
                 static_cast<double>(count("hits")), counted};
    }
    if (numbers.size() != 2 * totals.size()) {
      damaged("'totals' has " + std::to_string(numbers.size()) + " numbers, expected " +
              std::to_string(2 * totals.size()));
    }
    for (size_t i = 0; i < totals.size(); ++i) {
      totals[i] = {numbers[2 * i], numbers[2 * i + 1]};
      if (totals[i].weight < 0.0) damaged("'totals' has a weight below 0");
    }
  }
  // A fraction, or -1 before the first epoch's end.
  double best_accuracy() const {
    const auto value = number<double>("best_accuracy");
    if (value >= -1.0 && value <= 1.0) return value;  // false for nan
    damaged("'best_accuracy' is '" + printable(text("best_accuracy")) +
            "', expected a number from -1 to 1");
  }
  double best_score(const std::string& metric) const {
    const double accuracy = best_accuracy();
    if (metric == kAccuracy) return accuracy < 0.0 ? kNoScore : accuracy;
    return has("best_metric", metric) ? score("best_score") : kNoScore;
  }
  double score(const std::string& key) const {
    const auto value = number<double>(key);
    if (!std::isnan(value)) return value;
    damaged("'" + key + "' is not a number");
  }
  Plateau plateau() const {
    Plateau plateau;
    if (map_.count("plateau_best")) plateau.best = score("plateau_best");
    plateau.bad_epochs = count("plateau_bad_epochs");
    plateau.cooldown_left = count("plateau_cooldown_left");
    plateau.scale = score("plateau_scale");
    if (plateau.scale >= 0.0 && plateau.scale <= 1.0) return plateau;
    damaged("'plateau_scale' is '" + printable(text("plateau_scale")) +
            "', expected a number from 0 to 1");
  }
  bool has(const std::string& key, const std::string& value) const {
    const auto found = map_.find(key);
    return found != map_.end() && found->second == value;
  }
  const ConfigNode& config() const { return config_; }
  const std::optional<DatasetInfo>& dataset() const { return dataset_; }
  std::string init_from() const { return map_.count("init_from") ? text("init_from") : ""; }
  std::vector<std::string> changes() const {
    std::vector<std::string> lines;
    const auto found = map_.find("changes");
    std::istringstream stream(found == map_.end() ? "" : found->second);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  [[noreturn]] void damaged(const std::string& what) const {
    throw DataError(path_.string() + ": is damaged: its metadata: " + what);
  }

 private:
  template <class Reader>
  std::invoke_result_t<Reader, const std::string&> read(const std::string& key,
                                                        const Reader& reader) const {
    const std::string& value = text(key);
    try {
      return reader(value);
    } catch (const Error& error) {
      damaged("'" + key + "': " + error.what());
    }
  }

  const std::filesystem::path& path_;
  const safetensors::Metadata& map_;
  ConfigNode config_;
  std::optional<DatasetInfo> dataset_;
};

// False of files that others wrote, or an earlier version.
bool knows_its_network(const safetensors::File& file) {
  const auto format = file.metadata().find("format");
  return format != file.metadata().end() && format->second == kFormat;
}

// In what the training that was saved differs from the present one.
struct Differences {
  std::vector<std::string> all;
  std::vector<std::string> of_training;  // of these, what a resumed run needs --allow-changes for
  std::vector<std::string> of_results;   // and an evaluation
  bool of_steps = false;                 // other data or another batch: epochs have other steps
};

Differences differences_of(const Metadata& saved, const CheckpointInfo& now) {
  Differences found;
  bool other_data = false;
  for (const ConfigChange& change :
       config_changes(resolved(saved.config()), resolved(read_yaml(now.config, "configuration")))) {
    if (change.kind == ConfigChange::Kind::kLength) continue;
    found.all.push_back(to_string(change));
    if (change.of_results) found.of_results.push_back(to_string(change));
    if (change.kind != ConfigChange::Kind::kTraining) continue;
    found.of_training.push_back(to_string(change));
    other_data |= change.key.starts_with("data.") && change.key != "data.batch";
    found.of_steps |= change.key.starts_with("data.");
  }
  if (!other_data && !now.data.empty() && saved.text("data") != now.data) {
    const std::string what = "the files of the data set: other images or labels (fingerprint " +
                             printable(saved.text("data")) + " -> " + now.data + ")";
    found.all.push_back(what);
    found.of_training.push_back(what);
    found.of_results.push_back(what);
    found.of_steps = true;
  }
  return found;
}

bool has_all(const safetensors::File& file, const std::vector<Saved>& list) {
  return std::all_of(list.begin(), list.end(),
                     [&](const Saved& saved) { return file.find(saved.name); });
}

// Which tensors of a file a training takes that may average its weights ("ema") where the one that
// saved it did not, or the other way round: it goes on from the weights that were trained.
struct Restored {
  std::vector<Saved> parameters, states;
  bool average = true;  // among the parameters, or there is none
};

Restored restored_tensors(const safetensors::File& file, Training& training, bool allow_changes) {
  const Weights& weights = training.weights();
  const std::vector<Parameter>& parameters = weights.parameters();
  const bool averages = training.optimizer().options().ema > 0.0;
  const bool averaged =
      (averages && !allow_changes) ||
      std::any_of(parameters.begin(), parameters.end(), [&](const Parameter& parameter) {
        return file.find(state_name(kTrainedWeights, parameter));
      });
  Restored restored = {.average = averaged || !averages};
  for (const Parameter& parameter : parameters) {
    const auto add = [&](const std::string& name, const Tensor& memory) {
      restored.parameters.push_back({name, &parameter, memory});
    };
    if (!parameter.spec.trained()) {
      add(parameter.name, weights.buffers());
      continue;
    }
    const std::string trained = state_name(kTrainedWeights, parameter);
    add(averaged ? trained : parameter.name, weights.trained());
    if (averaged && averages) add(parameter.name, training.result());
    for (const auto& [state, memory] : training.optimizer_states()) {
      if (state == kTrainedWeights) continue;
      restored.states.push_back({state_name(state, parameter), &parameter, memory});
    }
  }
  return restored;
}

}  // namespace

void save_checkpoint(const std::filesystem::path& path, Training& training,
                     const CheckpointInfo& info) {
  StepState state = training.state();
  const std::vector<Saved> list = saved_tensors(training);
  std::vector<std::vector<float>> values;
  std::vector<safetensors::Entry> entries;
  for (const Saved& saved : list) {
    values.push_back(training.weights().read(*saved.parameter, saved.memory));
    entries.push_back({saved.name, DType::kFloat32, dims_of(saved.parameter->spec.desc.shape),
                       values.back().data()});
  }
  const bool by_accuracy = info.best_metric == kAccuracy && info.best_score != kNoScore;
  const double best_accuracy = by_accuracy ? info.best_score : -1.0;
  safetensors::Metadata metadata = {{"format", kFormat},
                                    {"config", info.config},
                                    {"data", info.data},
                                    {"best_accuracy", exact(best_accuracy)},
                                    {"steps_per_epoch", std::to_string(training.steps_per_epoch())},
                                    {"step", std::to_string(state.step)},
                                    {"totals", totals_text(totals_of(state, training))},
                                    {"last_loss", exact(state.last_loss)}};
  if (!info.dataset.name.empty()) metadata["dataset"] = dataset_metadata(info.dataset, info.data);
  if (info.best_metric != kAccuracy) {
    metadata["best_metric"] = info.best_metric;
    metadata["best_score"] = exact(info.best_score);
  }
  if (!info.stopping_metric.empty()) {
    metadata["stopping_metric"] = info.stopping_metric;
    metadata["stopping_score"] = exact(info.stopping_score);
    metadata["stopping_epochs"] = std::to_string(info.stopping_epochs);
  }
  if (!info.plateau_metric.empty()) {
    metadata["plateau_metric"] = info.plateau_metric;
    if (info.plateau.best) metadata["plateau_best"] = exact(*info.plateau.best);
    metadata["plateau_bad_epochs"] = std::to_string(info.plateau.bad_epochs);
    metadata["plateau_cooldown_left"] = std::to_string(info.plateau.cooldown_left);
    metadata["plateau_scale"] = exact(info.plateau.scale);
  }
  if (!info.init_from.empty()) metadata["init_from"] = info.init_from;
  if (!info.changes.empty()) metadata["changes"] = join(info.changes, "\n");
  safetensors::write(path, entries, metadata);
}

std::optional<CheckpointDescription> describe_checkpoint(const std::filesystem::path& path) {
  const safetensors::File file = safetensors::describe(path);
  if (!knows_its_network(file)) return {};
  const Metadata metadata(path, file.metadata());
  return CheckpointDescription{metadata.config(), metadata.dataset()};
}

namespace {

// What a resumed run began with is no choice of its own: its configuration goes on to say it.
std::string with_beginning_of(const ConfigNode& saved, const std::string& config) {
  const ConfigNode* before = saved.find("train");
  if (!before || !before->find("init_from")) return config;
  ConfigNode now = read_yaml(config, "configuration");
  ConfigNode& train = now.at_or_add("train");
  if (train.find("init_from")) return config;
  for (const char* key : {"init_from", "init_skip"}) {
    if (const ConfigNode* value = before->find(key)) train.at_or_add(key) = *value;
  }
  return write_yaml(now);
}

}  // namespace

Resumed load_checkpoint(const std::filesystem::path& path, Training& training,
                        const CheckpointInfo& now, bool allow_changes) {
  Differences differences;
  const safetensors::File file = safetensors::read(path, [&](const safetensors::File& described) {
    differences = differences_of(Metadata(path, described.metadata()), now);
    if (!differences.of_training.empty() && !allow_changes) {
      throw ConfigError(path.string() + ": was trained otherwise than this run would be:\n  " +
                        join(differences.of_training, "\n  ") +
                        "\nresume with the same, or start anew without --resume, or add "
                        "--allow-changes if this is meant");
    }
    check_parameters(path, described, saved_parameters(training.weights()));
  });
  const Metadata saved(path, file.metadata());
  Resumed resumed{.info = now, .changes = differences.all};
  resumed.info.config = with_beginning_of(saved.config(), now.config);
  // Optimizers call different states by the same name.
  const bool same_optimizer =
      std::none_of(differences.all.begin(), differences.all.end(),
                   [](const std::string& text) { return text.starts_with("optimizer.type"); });
  const Restored restored = restored_tensors(file, training, allow_changes);
  std::vector<Saved> list = restored.parameters;
  if (!allow_changes || (same_optimizer && has_all(file, restored.states))) {
    list.insert(list.end(), restored.states.begin(), restored.states.end());
  } else {
    resumed.changes.push_back("the optimizer's state begins anew");
  }
  if (!restored.average) resumed.changes.push_back("the average of the weights begins anew");
  check_tensors(path, file, list);
  const std::vector<std::vector<float>> values = values_of(file, list);

  StepState state = training.state();
  state.step = saved.number<uint64_t>("step");
  const std::span<Total> totals = totals_of(state, training);
  saved.read_totals(totals);
  state.last_loss = saved.number<float>("last_loss");
  resumed.info.best_score = saved.best_score(now.best_metric);
  if (saved.has("stopping_metric", now.stopping_metric)) {
    resumed.info.stopping_score = saved.score("stopping_score");
    resumed.info.stopping_epochs = saved.count("stopping_epochs");
  }
  if (saved.has("plateau_metric", now.plateau_metric)) resumed.info.plateau = saved.plateau();
  state.learning_rate_scale = resumed.info.plateau.scale;
  const auto per_epoch = saved.number<uint64_t>("steps_per_epoch");
  const auto per_epoch_now = static_cast<uint64_t>(training.steps_per_epoch());
  if (per_epoch == 0 || (per_epoch != per_epoch_now && !differences.of_steps)) {
    saved.damaged("'steps_per_epoch' is " + printable(saved.text("steps_per_epoch")));
  }
  resumed.info.init_from = saved.init_from();
  resumed.info.changes = saved.changes();
  for (const std::string& change : resumed.changes) {
    resumed.info.changes.push_back("at step " + saved.text("step") + ": " + change);
  }
  resumed.position = {static_cast<int64_t>(state.step / per_epoch), state.step};
  if (differences.of_steps) {
    resumed.position.steps -= state.step % per_epoch;
    state.step = state.step / per_epoch * per_epoch_now;
    std::fill(totals.begin(), totals.end(), Total{});
  }
  // Nothing can fail any more.
  for (size_t i = 0; i < list.size(); ++i) {
    training.weights().write(*list[i].parameter, list[i].memory, values[i]);
  }
  if (!restored.average) training.restart_average();
  training.set_state(state);
  return resumed;
}

double best_score_of(const std::filesystem::path& path, Training& training,
                     const std::string& metric) {
  try {
    const safetensors::File file = safetensors::read(path, [&](const safetensors::File& described) {
      check_parameters(path, described, saved_parameters(training.weights()));
    });
    return Metadata(path, file.metadata()).best_score(metric);
  } catch (const DataError&) {
    return kNoScore;
  }
}

std::vector<std::string> load_parameters(const std::filesystem::path& path, Weights& weights,
                                         const CheckpointInfo& now, bool allow_changes) {
  const std::vector<Saved> list = saved_parameters(weights);
  std::vector<std::string> differences;
  const safetensors::File file = safetensors::read(path, [&](const safetensors::File& described) {
    check_parameters(path, described, list);
    if (!knows_its_network(described)) return;
    differences = differences_of(Metadata(path, described.metadata()), now).of_results;
    if (differences.empty() || allow_changes) return;
    throw ConfigError(path.string() + ": was trained otherwise than it would be evaluated:\n  " +
                      join(differences, "\n  ") +
                      "\nevaluate it with the configuration of its run (config.yaml in the run's "
                      "folder), or add --allow-changes if this is meant");
  });
  const std::vector<std::vector<float>> values = values_of(file, list);
  for (size_t i = 0; i < list.size(); ++i) {
    weights.write(*list[i].parameter, list[i].memory, values[i]);
  }
  return differences;
}

}  // namespace duet
