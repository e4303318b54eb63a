#include "train/run/training_run.h"

#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "core/interrupt.h"
#include "core/number_text.h"
#include "data/set/fingerprint.h"
#include "device/gpu.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/checkpoint/dataset_metadata.h"
#include "train/evaluate/class_report.h"
#include "train/run/progress.h"
#include "train/version.h"
#include "user_kernels/kernel_file.h"

namespace duet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// Seconds since this process was started by the kernel, so that library loading counts.
double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return 0.0;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {  // field 22: start time in clock ticks
  }
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double started = read_number(field.c_str()) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::max(
      0.0, static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started);
}

// The same number in as few digits as tell it from other floats: 0.1, not 0.10000000149.
double shortest(float value) { return read_number(fmt::format("{}", value).c_str()); }

// The value of a metric of an epoch's line; a larger score is better.
double score_of(const MetricInfo& metric, const json& epoch) {
  const double value = epoch.at(metric.name);
  return metric.larger_is_better ? value : -value;
}

std::string score_text(const MetricInfo& metric, double score) {
  return metric.text(metric.larger_is_better ? score : -score);
}

}  // namespace

std::string device_name(const NetSpec& spec) {
  return device_of(spec) == Device::kGpu ? gpu_name() : "cpu";
}

TrainingRun::TrainingRun(const TrainerOptions& options, const Setup& setup, const Dataset& data,
                         Training& training)
    : options_(options),
      setup_(setup),
      spec_(setup.spec),
      data_(data),
      training_(training),
      metrics_(metrics_of(setup.layers)),
      goal_(spec_.train.goal,
            spec_.train.goal ? find_metric(metrics_, spec_.train.goal->metric) : nullptr) {}

int TrainingRun::run(std::optional<RunFolder> folder, const fs::path& checkpoint) {
  const TrainSpec::EarlyStopping& stopping = spec_.train.early_stopping;
  info_ = {.config = write_yaml(setup_.config),
           .data = fingerprint(data_),
           .dataset = data_,
           .best_metric = spec_.train.best,
           .stopping_metric = stopping.patience > 0 ? stopping.metric : "",
           .plateau_metric = setup_.schedule.plateau ? setup_.schedule.plateau->metric : ""};
  try {
    if (!checkpoint.empty()) resume(checkpoint);
    tell_initial_weights();
    const fs::path out = options_.out;
    folder_.emplace(folder ? std::move(*folder)
                           : RunFolder::create(out.empty() ? make_run_path(spec_.name) : out));
    training_.prepare();
    startup_seconds_ = seconds_since_process_start();
    spdlog::info("ready {:.2f} s after start; run folder {}", startup_seconds_,
                 folder_->path().string());
    spdlog::info("training images {}, validation images {}", training_.batches().whereabouts(),
                 training_.evaluation().batches().whereabouts());
    spdlog::info("the network:\n{}{}", network_table(setup_.layers, &training_.net()),
                 training_text(setup_));
    const InterruptGuard guard;
    watch_ = Elapsed();
    const uint64_t step = training_.state().step;
    const auto per_epoch = static_cast<uint64_t>(training_.steps_per_epoch());
    const uint64_t end = per_epoch * static_cast<uint64_t>(spec_.train.epochs);
    const std::string misfit =
        setup_.schedule.misfit(training_.optimizer().learning_rate(), training_.steps_per_epoch(),
                               static_cast<int64_t>(end));
    if (!misfit.empty()) spdlog::warn("{}", misfit);
    if (step < end && !has_stopped()) {
      start_folder(checkpoint);
      return train(step, per_epoch, end);
    }
    if (step < end) {
      spdlog::warn(
          "{} stopped early, after {} epochs; go on with a larger "
          "train.early_stopping.patience",
          checkpoint.string(), step / per_epoch);
    } else {
      spdlog::warn("{} has done {} epochs and {} are asked for; ask for more with --epochs",
                   checkpoint.string(), step / per_epoch, spec_.train.epochs);
    }
    finish_folder();
    const Metrics validation = training_.evaluate();
    check_finite(validation, static_cast<int64_t>(step / per_epoch));
    summary_ = {{"epoch", step / per_epoch}};
    add_values(validation.values("val_"));
    print_summary(false);
    return kExitDone;
  } catch (const DeviceError& e) {
    if (!training_.has_graph()) throw;
    throw DeviceError(std::string(e.what()) + " (" + Running::last() +
                      " was queued last; with CUDA_LAUNCH_BLOCKING=1 in the environment, '--set "
                      "graph=false' runs the layers one by one and names the one that fails)");
  } catch (const RunError& e) {
    throw RunError(e.what() + what_is_kept());
  }
}

std::string TrainingRun::what_is_kept() const {
  return saved_.empty() ? "; no checkpoint had been saved yet"
                        : "; the last good checkpoint is kept: " + saved_;
}

void TrainingRun::resume(const fs::path& checkpoint) {
  const Resumed resumed = load_checkpoint(checkpoint, training_, info_, options_.allow_changes);
  info_ = resumed.info;
  position_ = resumed.position;
  saved_ = checkpoint.string();
  spdlog::info("resuming from {} at step {}", saved_, training_.state().step);
  for (const std::string& change : resumed.changes) {
    spdlog::warn("otherwise than it was trained so far: {}", change);
  }
}

void TrainingRun::tell_initial_weights() {
  const std::optional<InitialWeights>& taken = training_.initial_weights();
  if (!taken) return;
  spdlog::info("begins with the weights of {}{}", taken->file.string(),
               taken->skipped.empty() ? "" : ", but for " + join(taken->skipped));
  for (const std::string& warning : warnings_of(*taken)) spdlog::warn(warning);
  info_.init_from = json_text({{"file", taken->file.string()},
                               {"skipped", taken->skipped},
                               {"missing", taken->missing},
                               {"unused", taken->unused}});
}

// Makes the folder that of a run at position_, whatever a process that was killed left in it.
void TrainingRun::start_folder(const fs::path& checkpoint) {
  folder_->make_checkpoints();
  std::error_code error;
  if (!checkpoint.empty()) {
    const double best = best_score_of(folder_->best(), training_, info_.best_metric);
    if (best < info_.best_score) {
      spdlog::warn("{} does not hold the best epoch so far ({}); from here on the best is kept",
                   folder_->best().string(),
                   score_text(metric(info_.best_metric), info_.best_score));
      info_.best_score = best;
    }
    // Before metrics are removed, which the last checkpoint must not be ahead of.
    if (!fs::equivalent(checkpoint, folder_->last(), error)) save(folder_->last());
  }
  folder_->open_metrics(position_);
  write_kernels();
  for (const json& epoch : folder_->epochs()) goal_.watch(epoch);
  write_run_json();
  if (!options_.tensorboard) return;
  events_.emplace(folder_->path(), position_.steps);
  spdlog::info("events for TensorBoard: tensorboard --logdir {}", folder_->path().string());
}

// Copies of the user's kernels that run, as they were read. Those of another source under the same name,
// which epochs before this were trained with, go to kernels/earlier/HASH/.
void TrainingRun::write_kernels() const {
  const auto write = [&](const fs::path& folder, const KernelFile& file) {
    for (const auto& [name, text] : copy_of(file)) {
      const fs::path place = folder / name;
      std::error_code error;
      fs::create_directories((folder_->path() / place).parent_path(), error);
      folder_->write(place.string(), text);
    }
  };
  for (const auto& kernels : kernels_of(setup_.layers)) {
    const KernelFile& file = kernels->file();
    const fs::path kept = folder_->path() / "kernels" / file.path.filename();
    std::error_code error;
    if (fs::exists(kept, error)) {
      const KernelFile earlier = read_kernel_file(kept);
      if (earlier.hash != file.hash) write(fs::path("kernels") / "earlier" / earlier.hash, earlier);
    }
    write("kernels", file);
  }
}

// The same where nothing is left to do: what is there stays as it is.
void TrainingRun::finish_folder() {
  folder_->make_checkpoints();
  std::error_code error;
  if (!fs::exists(folder_->last(), error)) save(folder_->last());
  finished_ = true;
  for (const json& epoch : folder_->epochs()) goal_.watch(epoch);
  if (!fs::exists(folder_->path() / "run.json", error)) write_run_json();
}

int TrainingRun::train(uint64_t step, uint64_t per_epoch, uint64_t end) try {
  while (step < end) {
    const uint64_t first = step;
    step = run_epoch(step, per_epoch);
    if (InterruptGuard::requested() && (step % per_epoch != 0 || step == first)) break;
    finish_epoch(static_cast<int64_t>(step / per_epoch));
    if (InterruptGuard::requested()) break;
    if (has_stopped()) {
      spdlog::info("stopped early: {} has not improved for {} epochs", info_.stopping_metric,
                   info_.stopping_epochs);
      break;
    }
  }
  const bool interrupted = InterruptGuard::requested() && step < end && !has_stopped();
  finished_ = !interrupted;
  if (finished_) write_run_json();
  if (interrupted) {
    save(folder_->last());
    spdlog::warn("interrupted after step {}; saved. Go on with: --resume {}", step,
                 folder_->last().string());
  }
  print_summary(interrupted);
  return interrupted ? kExitInterrupted : kExitDone;
} catch (const DataError& e) {  // of a file that is streamed
  throw DataError(e.what() + what_is_kept());
}

void TrainingRun::write_run_json() {
  folder_->write("config.yaml", info_.config);
  json versions = json::object();
  for (const auto& [name, version] : gpu::versions()) versions[name] = version;
  json dataset = json::parse(dataset_metadata(data_, info_.data));
  dataset["source"] = data_.source;
  dataset["training"] = training_.batches().whereabouts();
  dataset["validation"] = training_.evaluation().batches().whereabouts();
  if (data_.left_out.count > 0) {
    dataset["left_out"] = {{"count", data_.left_out.count}, {"named", data_.left_out.named}};
  }
  json object = {{"name", spec_.name},
                 {"duet", version_text()},
                 {"versions", versions},
                 {"device", device_name(spec_)},
                 {"backend", spec_.backend.name},
                 {"math", to_string(spec_.math)},
                 {"seed", spec_.seed},
                 {"epochs", spec_.train.epochs},
                 {"finished", finished_},
                 {"dataset", dataset},
                 {"parameters", parameter_count(setup_.layers)},
                 {"memory_bytes", training_.net().memory_bytes()},
                 {"activation_bytes", training_.net().activation_bytes()},
                 {"unshared_activation_bytes", training_.net().unshared_bytes()},
                 {"startup_seconds", startup_seconds_},
                 {"layers", network_json(setup_.layers, &training_.net())}};
  object.update(training_json(setup_));
  if (const int64_t frozen = frozen_parameter_count(setup_.layers)) {
    object["frozen_parameters"] = frozen;
  }
  if (const json goal = goal_.to_json(); !goal.is_null()) object["goal"] = goal;
  if (!info_.init_from.empty()) object["init_from"] = json::parse(info_.init_from);
  if (!info_.changes.empty()) object["changes"] = info_.changes;
  folder_->write("run.json", json_text(object, 2) + "\n");
}

// Runs steps until the epoch ends or a signal comes; returns the step number.
uint64_t TrainingRun::run_epoch(uint64_t step, uint64_t per_epoch) {
  const uint64_t epoch = step / per_epoch;
  const uint64_t first = step;
  const uint64_t epoch_end = (epoch + 1) * per_epoch;
  const auto log_every = static_cast<uint64_t>(spec_.train.log_every);
  const std::string label = fmt::format("epoch {}/{}", epoch + 1, spec_.train.epochs);
  Progress progress(spdlog::should_log(spdlog::level::info));
  const Elapsed watch;
  double looked = 0.0, told = 0.0;
  const auto rate = [&] {
    return per_second(static_cast<int64_t>(step - first) * spec_.data.batch, watch.seconds());
  };
  while (step < epoch_end && !InterruptGuard::requested()) {
    uint64_t count = std::min(log_every - step % log_every, epoch_end - step);
    try {
      std::optional<Running> running;
      name_replay(running, "step", step + 1);
      count = static_cast<uint64_t>(training_.step_some(static_cast<int64_t>(count)));
    } catch (const InterruptedError&) {  // while it waited for the batch
      break;
    }
    step += count;
    const bool log = step % log_every == 0;
    const double now = watch.seconds();
    const bool show = progress.active() && now - looked > 0.1;
    const bool tell = !progress.active() && now - told > 10.0;
    if (!log && !show && !tell) continue;
    const StepState state = checked_state();
    looked = watch.seconds();
    const Metrics so_far = training_.totals().metrics(state);
    if (log) {
      folder_->append_metrics({{"event", "step"},
                               {"epoch", epoch + 1},
                               {"step", step},
                               {"loss", state.last_loss},
                               {"learning_rate", shortest(state.last_learning_rate)},
                               {"images_per_second", rate()}});
      if (events_) events_->step(state);
    }
    const int64_t images_left = static_cast<int64_t>(epoch_end - step) * spec_.data.batch;
    const double left = per_second(images_left, rate());  // images / (images/s)
    const std::string detail = fmt::format("{}  {:.0f} images/s", values_text(so_far), rate());
    progress.update(label, static_cast<int64_t>(step - epoch * per_epoch),
                    static_cast<int64_t>(per_epoch), detail, left);
    if (tell) {
      spdlog::info("{}  step {}/{}  {}", label, step - epoch * per_epoch, per_epoch, detail);
      told = looked;
    }
  }
  progress.clear();
  checked_state();
  epoch_seconds_ = watch.seconds();
  epoch_is_whole_ = first % per_epoch == 0;
  epoch_images_ = static_cast<int64_t>(step - first) * spec_.data.batch;
  train_seconds_ += epoch_seconds_;
  train_images_ += epoch_images_;
  return step;
}

void TrainingRun::name_replay(std::optional<Running>& running, std::string_view what,
                              uint64_t number) const {
  if (!training_.has_graph()) return;
  running.emplace(std::string(what) + " " + std::to_string(number), "the replayed graph of",
                  spec_.name);
}

void TrainingRun::finish_epoch(int64_t epoch) {
  const StepState state = training_.state();
  const Metrics train = training_.totals().metrics(state);
  const Elapsed watch;
  std::optional<Running> running;
  name_replay(running, "evaluation after epoch", static_cast<uint64_t>(epoch));
  const Metrics validation = training_.evaluate();
  running.reset();
  const double evaluation_seconds = watch.seconds();
  const double rate = per_second(epoch_images_, epoch_seconds_);
  spdlog::info("epoch {}/{}  train {}  validation {}  {} images/s  {:.2f} s", epoch,
               spec_.train.epochs, values_text(train), values_text(validation),
               format_count(std::llround(rate)), epoch_seconds_);
  summary_ = {{"event", "epoch"},
              {"epoch", epoch},
              {"learning_rate", shortest(state.last_learning_rate)},
              {"images_per_second", rate},
              {"seconds", epoch_is_whole_ ? json(epoch_seconds_) : json()},
              {"evaluation_seconds", evaluation_seconds}};
  add_values(train.values("train_"));
  add_values(validation.values("val_"));
  if (data_.left_out.count > 0) summary_["left_out"] = data_.left_out.count;
  folder_->append_metrics(summary_);
  if (events_) events_->epoch(summary_, training_);
  check_finite(validation, epoch);
  if (goal_.watch(summary_)) {
    spdlog::info(
        "reached the goal of {}{}", metric(spec_.train.goal->metric).text(spec_.train.goal->value),
        std::isnan(goal_.seconds()) ? "" : fmt::format(" after {:.1f} s", goal_.seconds()));
    write_run_json();
  }
  training_.clear_totals();
  watch_for_the_end();
  watch_for_a_plateau();
  const double score = score_of(metric(info_.best_metric), summary_);
  if (score > info_.best_score) {
    info_.best_score = score;
    // Before the last one, which says by its best score that these are there: a run that is
    // ended between them goes on from the epoch before, and comes to the same.
    json evaluation = evaluation_json(data_, validation);
    evaluation["epoch"] = epoch;
    folder_->write("evaluation.json", json_text(evaluation) + "\n");
    save(folder_->best());
  }
  save(folder_->last());
}

void TrainingRun::add_values(const Metrics::Values& values) {
  for (const Metrics::Value& each : values) summary_[each.name] = each.value;
}

const MetricInfo& TrainingRun::metric(const std::string& name) const {
  const MetricInfo* const found = find_metric(metrics_, name);
  if (!found) throw std::logic_error("the network has no metric " + name);
  return *found;
}

void TrainingRun::watch_for_the_end() {
  const TrainSpec::EarlyStopping& stopping = spec_.train.early_stopping;
  if (stopping.patience == 0) return;
  const double score = score_of(metric(stopping.metric), summary_);
  const bool improved = score > info_.stopping_score + stopping.min_delta;
  if (improved) info_.stopping_score = score;
  info_.stopping_epochs = improved ? 0 : info_.stopping_epochs + 1;
}

void TrainingRun::watch_for_a_plateau() {
  const std::optional<PlateauRule>& rule = setup_.schedule.plateau;
  if (!rule) return;
  const MetricInfo& watched = metric(rule->metric);
  const double value = summary_[watched.name];
  if (!info_.plateau.watch(*rule, value, watched.larger_is_better,
                           training_.optimizer().learning_rate())) {
    return;
  }
  StepState state = training_.state();
  state.learning_rate_scale = info_.plateau.scale;
  training_.set_state(state);
  spdlog::info("{} has not improved for {} epochs; the learning rate is {} from here on",
               watched.name, rule->patience + 1, shortest(training_.state().learning_rate));
}

bool TrainingRun::has_stopped() const {
  const int64_t patience = spec_.train.early_stopping.patience;
  return patience > 0 && info_.stopping_epochs >= patience;
}

void TrainingRun::check_finite(const Metrics& validation, int64_t epoch) const {
  if (std::isfinite(validation.loss)) return;
  throw RunError(
      fmt::format("the validation loss is not finite after epoch {}; try a smaller learning rate "
                  "(it is {})",
                  epoch, training_.optimizer().learning_rate()));
}

void TrainingRun::save(const fs::path& path) {
  save_checkpoint(path, training_, info_);
  saved_ = path.string();
}

StepState TrainingRun::checked_state() {
  const StepState state = training_.state();
  if (!state.halted) return state;
  const std::string where = training_.explain_halt();
  throw RunError(fmt::format(
      "the loss became {} at step {}; the first that is not finite is {}; try a smaller learning "
      "rate (it is {})",
      std::isnan(state.last_loss) ? "nan" : "infinite", state.step + 1, where,
      state.learning_rate));
}

void TrainingRun::print_summary(bool interrupted) {
  json object = summary_;
  object.erase("event");
  object["name"] = spec_.name;
  object["backend"] = spec_.backend.name;
  object["device"] = device_name(spec_);
  object["dataset"] = data_.name;
  object["epochs"] = spec_.train.epochs;
  object["batch"] = spec_.data.batch;
  object["seconds"] = watch_.seconds();
  object["images_per_second"] = per_second(train_images_, train_seconds_);
  object["startup_seconds"] = startup_seconds_;
  object["interrupted"] = interrupted;
  if (const json goal = goal_.to_json(); !goal.is_null()) object["goal"] = goal;
  if (!info_.stopping_metric.empty()) object["stopped_early"] = has_stopped();
  object["out"] = folder_->path().string();
  if (options_.json) std::printf("%s\n", json_text(object).c_str());
}

namespace {

// What a value of the configuration is for who takes it: a number as ConfigReader reads it, however it is written.
json json_of(const ConfigNode& value) {
  switch (value.kind) {
    case ConfigNode::Kind::kNull:
      return {};
    case ConfigNode::Kind::kList: {
      json list = json::array();
      for (const ConfigNode& item : value.items) list.push_back(json_of(item));
      return list;
    }
    case ConfigNode::Kind::kMap: {
      json map = json::object();
      for (const auto& [key, item] : value.entries) map[key] = json_of(item);
      return map;
    }
    case ConfigNode::Kind::kScalar:
      break;
  }
  if (value.scalar == "true" || value.scalar == "false") return value.scalar == "true";
  if (const auto whole = parse_integer(value.scalar)) return *whole;
  if (const auto number = parse_number(value.scalar)) return *number;
  return value.scalar;
}

}  // namespace

nlohmann::json training_json(const Setup& setup) {
  json object = json::object();
  for (const char* part : {"optimizer", "schedule"}) {
    if (const ConfigNode* node = setup.config.find(part)) object[part] = json_of(*node);
  }
  return object;
}

}  // namespace duet
