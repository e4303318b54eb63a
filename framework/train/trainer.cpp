#include "train/trainer.h"

#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/interrupt.h"
#include "device/gpu.h"
#include "net/auto.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/checkpoint.h"
#include "train/profiler.h"
#include "train/progress.h"
#include "train/run_folder.h"
#include "train/training.h"
#include "train/version.h"

namespace duet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

double now_seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

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
  const double started =
      std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec) - started;
}

std::string percent(double fraction) { return fmt::format("{:.2f}%", 100.0 * fraction); }

// The file that --resume or --evaluate names.
fs::path existing_checkpoint(const std::string& option, const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const fs::path last = path / "checkpoints" / "last.safetensors";
    throw ConfigError(option + " " + path.string() + ": is a folder; name the checkpoint in it, " +
                      (fs::exists(last, error) ? last.string() : "a .safetensors file"));
  }
  if (!fs::exists(path, error)) {
    throw ConfigError(option + " " + path.string() + ": there is no such file");
  }
  return path;
}

class Run {
 public:
  Run(const TrainerOptions& options, const fs::path& checkpoint, Setup& setup, const Dataset& data,
      Context& context)
      : options_(options),
        checkpoint_(checkpoint),
        setup_(setup),
        spec_(setup.spec),
        training_(spec_, setup.layers, data, std::move(setup.optimizer), context),
        info_{.network = spec_.name,
              .dataset = data.name,
              .optimizer = std::string(training_.optimizer().type()),
              .seed = spec_.seed,
              .batch = spec_.data.batch,
              .images = data.train.count},
        source_(data.source) {}

  int evaluate() {
    load_parameters(checkpoint_, training_);
    training_.prepare();
    const double start = now_seconds();
    const Metrics metrics = training_.evaluate();
    const double seconds = now_seconds() - start;
    spdlog::info("{}: validation loss {:.4f}, accuracy {} of {} images", checkpoint_.string(),
                 metrics.loss, percent(metrics.accuracy), metrics.rows);
    print_json({{"name", spec_.name},
                {"backend", spec_.backend.name},
                {"checkpoint", checkpoint_.string()},
                {"val_loss", metrics.loss},
                {"val_accuracy", metrics.accuracy},
                {"images", metrics.rows},
                {"images_per_second", static_cast<double>(metrics.rows) / seconds}});
    return kExitDone;
  }

  int profile() {
    training_.prepare();
    print_json(run_profiler(training_, setup_, options_.out));
    return kExitDone;
  }

  int train() {
    try {
      return train_in(open_folder());
    } catch (const RunError& e) {
      throw RunError(std::string(e.what()) +
                     (saved_.empty() ? "; no checkpoint had been saved yet"
                                     : "; the last good checkpoint is kept: " + saved_));
    }
  }

 private:
  int train_in(RunFolder folder) {
    training_.prepare();
    startup_seconds_ = seconds_since_process_start();
    spdlog::info("ready {:.2f} s after start; run folder {}", startup_seconds_,
                 folder.path().string());
    spdlog::info("the network:\n{}", network_table(setup_.layers, &training_.net()));
    InterruptGuard guard;
    start_ = now_seconds();
    uint64_t step = training_.state().step;
    const auto per_epoch = static_cast<uint64_t>(training_.steps_per_epoch());
    const uint64_t end = per_epoch * static_cast<uint64_t>(spec_.train.epochs);
    if (step >= end) {
      spdlog::warn("{} has done {} epochs and {} are asked for; ask for more with --epochs",
                   checkpoint_.string(), step / per_epoch, spec_.train.epochs);
      const Metrics validation = training_.evaluate();
      summary_ = {{"epoch", step / per_epoch},
                  {"val_loss", validation.loss},
                  {"val_accuracy", validation.accuracy}};
    }
    // Those of a run that is done stay as they are.
    if (step < end || !fs::exists(folder.path() / "run.json")) write_run_json(folder);
    while (step < end) {
      step = run_epoch(folder, step, per_epoch);
      if (InterruptGuard::requested() && step % per_epoch != 0) break;
      finish_epoch(folder, static_cast<int64_t>(step / per_epoch));
      if (InterruptGuard::requested()) break;
    }
    const bool interrupted = InterruptGuard::requested() && step < end;
    if (interrupted) {
      save_checkpoint(folder.last(), training_, info_);
      spdlog::warn("interrupted after step {}; saved. Go on with: --resume {}", step,
                   folder.last().string());
    }
    print_summary(folder, interrupted);
    return interrupted ? kExitInterrupted : kExitDone;
  }

  RunFolder open_folder() {
    const fs::path out = options_.out;
    if (!checkpoint_.empty()) {
      info_ = load_checkpoint(checkpoint_, training_, info_);
      saved_ = checkpoint_.string();
      spdlog::info("resuming from {} at step {}", saved_, training_.state().step);
      // Only its own run goes on: in another one it would overwrite that one's checkpoints.
      const fs::path parent = fs::absolute(checkpoint_).parent_path();
      const fs::path own = parent.filename() == "checkpoints" ? parent.parent_path() : fs::path();
      std::error_code error;
      const bool same = out.empty() || fs::equivalent(out, own, error);
      if (!own.empty() && same) return RunFolder::reopen(out.empty() ? own : out);
    }
    return RunFolder::create(out.empty() ? make_run_path(spec_.name) : out);
  }

  void write_run_json(const RunFolder& folder) {
    folder.write("config.yaml", write_yaml(setup_.config));
    json versions = json::object();
    for (const auto& [name, version] : gpu::versions()) versions[name] = version;
    folder.write("run.json", json_text({{"name", spec_.name},
                                        {"duet", version_text()},
                                        {"versions", versions},
                                        {"device", device_name()},
                                        {"backend", spec_.backend.name},
                                        {"seed", spec_.seed},
                                        {"dataset", {{"name", info_.dataset}, {"source", source_}}},
                                        {"parameters", parameter_count(setup_.layers)},
                                        {"memory_bytes", training_.net().memory_bytes()},
                                        {"startup_seconds", startup_seconds_},
                                        {"layers", network_json(setup_.layers, &training_.net())}},
                                       2) +
                                 "\n");
  }

  // Runs steps until the epoch ends or a signal comes; returns the step number.
  uint64_t run_epoch(RunFolder& folder, uint64_t step, uint64_t per_epoch) {
    const uint64_t epoch = step / per_epoch;
    const uint64_t first = step;
    const uint64_t epoch_end = (epoch + 1) * per_epoch;
    const std::string label = fmt::format("epoch {}/{}", epoch + 1, spec_.train.epochs);
    Progress progress(spdlog::should_log(spdlog::level::info));
    const double start = now_seconds();
    double looked = start, told = start;
    const auto rate = [&] {
      return static_cast<double>((step - first) * static_cast<uint64_t>(spec_.data.batch)) /
             (now_seconds() - start);
    };
    while (step < epoch_end && !InterruptGuard::requested()) {
      training_.step();
      ++step;
      const bool log = step % static_cast<uint64_t>(spec_.train.log_every) == 0;
      const double now = now_seconds();
      const bool show = progress.active() && now - looked > 0.1;
      const bool tell = !progress.active() && now - told > 10.0;
      if (!log && !show && !tell) continue;
      const StepState state = checked_state();
      looked = now_seconds();
      const Metrics so_far = metrics_of(state);
      if (log) {
        folder.append_metrics({{"event", "step"},
                               {"epoch", epoch + 1},
                               {"step", step},
                               {"loss", state.last_loss},
                               {"images_per_second", rate()}});
      }
      const double left =
          static_cast<double>(epoch_end - step) * static_cast<double>(spec_.data.batch) / rate();
      progress.update(label, static_cast<int64_t>(step - epoch * per_epoch),
                      static_cast<int64_t>(per_epoch), so_far.loss, so_far.accuracy, rate(), left);
      if (tell) {
        spdlog::info("{}  step {}/{}  loss {:.4f}  accuracy {}  {:.0f} images/s", label,
                     step - epoch * per_epoch, per_epoch, so_far.loss, percent(so_far.accuracy),
                     rate());
        told = looked;
      }
    }
    progress.clear();
    checked_state();
    epoch_seconds_ = now_seconds() - start;
    epoch_images_ = static_cast<int64_t>(step - first) * spec_.data.batch;
    train_seconds_ += epoch_seconds_;
    train_images_ += epoch_images_;
    return step;
  }

  void finish_epoch(RunFolder& folder, int64_t epoch) {
    const Metrics train = metrics_of(training_.state());
    const double start = now_seconds();
    const Metrics validation = training_.evaluate();
    const double evaluation_seconds = now_seconds() - start;
    const double rate = static_cast<double>(epoch_images_) / epoch_seconds_;
    spdlog::info(
        "epoch {}/{}  train loss {:.4f} accuracy {}  validation loss {:.4f} accuracy {}  {} "
        "images/s  {:.2f} s",
        epoch, spec_.train.epochs, train.loss, percent(train.accuracy), validation.loss,
        percent(validation.accuracy), format_count(std::llround(rate)), epoch_seconds_);
    summary_ = {{"event", "epoch"},
                {"epoch", epoch},
                {"train_loss", train.loss},
                {"train_accuracy", train.accuracy},
                {"val_loss", validation.loss},
                {"val_accuracy", validation.accuracy},
                {"images_per_second", rate},
                {"seconds", epoch_seconds_},
                {"evaluation_seconds", evaluation_seconds}};
    folder.append_metrics(summary_);
    if (!std::isfinite(validation.loss)) {
      throw RunError(
          fmt::format("the validation loss is not finite after epoch {}; try a smaller "
                      "learning rate (it is {})",
                      epoch, training_.optimizer().learning_rate()));
    }
    training_.clear_totals();
    const bool better = validation.accuracy > info_.best_accuracy;
    if (better) info_.best_accuracy = validation.accuracy;
    save_checkpoint(folder.last(), training_, info_);
    saved_ = folder.last().string();
    if (better) save_checkpoint(folder.best(), training_, info_);
  }

  StepState checked_state() {
    const StepState state = training_.state();
    if (!state.halted) return state;
    const std::string where = training_.explain_halt();
    throw RunError(fmt::format(
        "the loss became {} at step {}; the first that is not finite is {}; try a smaller learning "
        "rate (it is {})",
        std::isnan(state.last_loss) ? "nan" : "infinite", state.step + 1, where,
        training_.optimizer().learning_rate()));
  }

  std::string device_name() const { return training_device() == Device::kGpu ? gpu_name() : "cpu"; }
  Device training_device() const { return device_of(spec_); }

  void print_summary(const RunFolder& folder, bool interrupted) {
    json object = summary_;
    object.erase("event");
    object["name"] = spec_.name;
    object["backend"] = spec_.backend.name;
    object["device"] = device_name();
    object["dataset"] = info_.dataset;
    object["epochs"] = spec_.train.epochs;
    object["batch"] = spec_.data.batch;
    object["seconds"] = now_seconds() - start_;
    object["images_per_second"] =
        train_seconds_ > 0 ? static_cast<double>(train_images_) / train_seconds_ : 0.0;
    object["startup_seconds"] = startup_seconds_;
    object["interrupted"] = interrupted;
    object["out"] = folder.path().string();
    print_json(object);
  }

  void print_json(const json& object) const {
    if (options_.json) std::printf("%s\n", json_text(object).c_str());
  }

  const TrainerOptions& options_;
  const fs::path checkpoint_;  // to resume or to evaluate; may be empty
  Setup& setup_;
  const NetSpec& spec_;
  Training training_;
  CheckpointInfo info_;
  std::string source_;
  std::string saved_;  // the last good checkpoint
  json summary_ = json::object();
  double start_ = 0.0, startup_seconds_ = 0.0;
  double epoch_seconds_ = 0.0, train_seconds_ = 0.0;
  int64_t epoch_images_ = 0, train_images_ = 0;
};

}  // namespace

int run_trainer(const TrainerOptions& options) {
  Setup setup = read_setup(options.setup);
  const NetSpec& spec = setup.spec;
  if (options.dry_run) {
    recall_choices(setup.layers, device_of(spec), workspace_limit(spec),
                   TuningCache(auto_cache_path()));
    if (options.json) {
      std::printf("%s\n", json_text({{"name", spec.name},
                                     {"parameters", parameter_count(setup.layers)},
                                     {"layers", network_json(setup.layers, nullptr)}})
                              .c_str());
    } else {
      std::fputs(network_table(setup.layers, nullptr).c_str(), stdout);
    }
    return kExitDone;
  }
  if (device_of(spec) == Device::kGpu && !gpu_available()) {
    throw UnsupportedError("backend '" + spec.backend.name + "': " + gpu_missing_reason());
  }
  // What can be told without the data is told before it is loaded.
  fs::path checkpoint;
  if (!options.evaluate.empty()) {
    checkpoint = existing_checkpoint("--evaluate", options.evaluate);
  } else if (!options.resume.empty()) {
    checkpoint = options.resume == "last" ? find_last_checkpoint(spec.name, options.out)
                                          : existing_checkpoint("--resume", options.resume);
  } else if (!options.out.empty()) {
    RunFolder::check_free(options.out);
  }
  const Dataset data = setup.dataset.load(options.data);
  spdlog::info("{}: {} training and {} validation images, {}", data.name,
               format_count(data.train.count), format_count(data.validation.count),
               data.source == "generated" ? data.source : "from " + data.source);
  check_batch(setup, options.setup.config, data);
  Context context(device_of(spec));
  context.set_workspace_limit(workspace_limit(spec));
  choose_implementations(setup, context);
  Run run(options, checkpoint, setup, data, context);
  return options.evaluate.empty() ? (options.profile ? run.profile() : run.train())
                                  : run.evaluate();
}

}  // namespace duet
