#include "lab/watch_child.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "compare/results/records.h"
#include "compare/results/results_json.h"
#include "compare/tables/format.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/watchdog.h"
#include "device/nvrtc.h"
#include "device/stopwatch.h"
#include "lab/bench_rows.h"
#include "measure/examine/examine_checks.h"
#include "net/choose.h"
#include "net/table.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

constexpr auto kBetweenLooks = std::chrono::milliseconds(25);
constexpr double kStill = 0.05;  // seconds after which a file is taken for whole

class WatchChild {
 public:
  WatchChild(const BenchOptions& options, const WatchState& state, const Send& send)
      : options_(options),
        state_(state),
        send_(send),
        files_(state.files),
        environment_(state.environment),
        times_(state.times),
        references_(std::make_shared<KeptReferences>()) {
    for (const KernelFile& file : files_) devices_.insert(device_of(family_of(file.id)));
    if (!gpu_available()) devices_.erase(Device::kGpu);
    problems_ = read_problems(options.problems,
                              devices_.contains(Device::kGpu) ? Device::kGpu : Device::kCpu);
    options_.quick = true;
    options_.cold = false;
    options_.check_only = false;
  }

  void run() {
    look();
    if (!state_.times_measured) measure_others();
    unload_kernels();  // so that nothing more asks the sources that the watch began with
    look();
    if (!changed_) warm_up();
    while (!changed_ && !InterruptGuard::requested()) {
      std::this_thread::sleep_for(kBetweenLooks);
      look();
    }
    if (changed_) examine(*changed_);
  }

 private:
  void tell(const WatchMessage& message) const { send_(json_text(JsonWriter::write(message))); }

  // ---- before the user saves ----

  // Notes a file that is another one than was examined and has stayed so for a while. One that cannot
  // be read is about to be replaced.
  void look() {
    for (size_t i = 0; i < files_.size() && !changed_; ++i) {
      try {
        KernelFile now = read_kernel_file(files_[i].path);
        if (now.hash == files_[i].hash) continue;
        Seen& seen = seen_[i];
        if (now.hash != seen.hash) seen = {now.hash, Elapsed()};
        if (seen.since.seconds() < kStill) continue;
        if (files_[i].hash.empty()) seen.since = Elapsed();  // nobody has saved it
        files_[i] = std::move(now);
        changed_ = i;
      } catch (const Error&) {
      }
    }
  }

  // What the user named beside the files, or what a network would run of the library.
  std::vector<std::string> others_on(Device device) const {
    if (options_.impls.empty()) return {device == Device::kGpu ? "cudnn" : "cpu"};
    std::vector<std::string> others = options_.impls;
    std::erase_if(others, [&](const std::string& id) {
      return device_of(family_of(id)) != device || find_kernels(options_.problems.layer, id);
    });
    return others;
  }

  void measure_others() {
    for (const Device device : devices_) {
      try {
        measure_others(device);
      } catch (const UnsupportedError& error) {  // the kernels can be examined all the same
        tell({.text = indented(error.what())});
      }
    }
    tell({.environment = environment_, .times = times_});
  }

  void measure_others(Device device) {
    choose_device(options_.impls, device);
    const std::vector<std::string> impls = others_on(device);
    if (impls.empty()) return;
    auto selections = select(problems_, options_.passes, impls, device, true);
    for (ProblemSelection& selection : selections) {
      for (PassSelection& each : selection.passes) {
        std::erase_if(each.candidates, [&](const Candidate& candidate) {
          return find_kernels(options_.problems.layer, candidate.id) != nullptr;
        });
      }
    }
    tell({.text = now_text() + "  what they are compared with, timed once in short blocks:\n"});
    measure(selections, device, [this](const BenchRow& row) {
      for (const auto& arm : row.arms) {
        if (!arm) continue;
        if (arm->agrees != true) {
          tell({.text = "  " + row.pass + ": " + arm->implementation + " is wrong\n"});
        } else if (!arm->rounds_us.empty()) {
          times_.push_back(kept_time(row, *arm));
          tell({.text = problem_text(row.problem) + kept_time_text(times_.back()) + "\n"});
        }
      }
    });
  }

  // References, and what libraries and drivers do when they are first used. An error will come again
  // when somebody asks for more than speed.
  void warm_up() try {
    Nvrtc::find();
    for (const Device device : devices_) {
      for (const ProblemSelection& all : select(problems_, options_.passes, {}, device)) {
        std::vector<Pass> passes;
        for (const PassSelection& each : all.passes) passes.push_back(each.pass);
        for (const Pass pass : passes) {
          look();
          if (changed_ || InterruptGuard::requested()) return;
          warm_up(*all.problem->layer, references_->of(*all.problem->layer, passes), pass, device);
        }
      }
    }
  } catch (const UnusableProcessError&) {
    throw;
  } catch (const Error&) {
  }

  // On the CPU references are all that takes long.
  void warm_up(const Layer& layer, const CheckData& check_data, Pass pass, Device device) const {
    if (device == Device::kCpu) return;
    const auto id = choose_of(NetSpec{}, layer, Family::kCustom, pass);
    if (!id) return;
    const Watchdog watchdog(options_.patience);
    Context context(device);
    check(layer, *id, pass, check_data, context);
  }

  // ---- after it ----

  void examine(size_t at) {
    const KernelFile& file = files_[at];
    const Elapsed& watch = seen_[at].since;
    tell({.text = now_text() + "  " + file.name() + ", source " + file.hash + "\n",
          .begun = WatchMessage::Begun{at, file.hash}});
    try {
      load_kernels({file.path});
      // NVRTC takes a thread of this process; a compiler of the host would be slowed down by others.
      std::future<void> ahead;
      if (file.device == Device::kGpu && !file.plugin) {
        ahead = std::async(std::launch::async, [this, &file] { compile_neighbours(file); });
      }
      const bool fits = compiles(file);
      ahead.valid() ? ahead.get() : compile_neighbours(file);
      if (fits) examine(file);
    } catch (const UnusableProcessError&) {
      throw;
    } catch (const Error& error) {
      if (InterruptGuard::requested()) return;
      tell({.text = indented(error.what())});
    }
    tell({.text = "  " + format_seconds(watch.seconds()) + " from the save\n", .done = true});
  }

  // Tells of the first problem's code; the others differ in constants alone.
  bool compiles(const KernelFile& file) {
    const auto kernels = find_kernels(file.type, file.id);
    const Layer& layer = *problems_.front().layer;
    if (const auto reason = kernels->cannot_run(layer)) {
      tell({.text = indented(*reason)});
      return false;
    }
    const CompiledKernels& made = kernels->compiled(layer);
    const bool fits = made.refusal.empty();
    tell({.text = fits ? compiled_text(made) : indented(made.refusal)});
    return fits;
  }

  // The problems on which the examination runs the kernels, too: sizes are constants, so that each is
  // compiled for itself.
  void compile_neighbours(const KernelFile& file) const {
    std::vector<std::unique_ptr<Layer>> all;
    std::vector<const Layer*> layers;
    for (const BenchProblem& problem : problems_) {
      if (&problem != &problems_.front())
        layers.push_back(problem.layer.get());  // it is compiles()'s
      for (auto& neighbour : neighbours(*problem.layer)) all.push_back(std::move(neighbour));
    }
    for (const auto& layer : all) layers.push_back(layer.get());
    find_kernels(file.type, file.id)->compile_ahead(layers);
  }

  void examine(const KernelFile& file) {
    const Device device = choose_device({file.id}, {});
    auto selections = select(problems_, options_.passes, {file.id}, device);
    measure(selections, device, [&](const BenchRow& row) {
      const std::string& machine = environment_->device();
      const std::string verdict =
          verdict_text(row, file.id, times_, KernelHistory(file).of(row, machine));
      const MeasuredArm* arm = arm_of(row, file.id);
      nlohmann::json entry =
          history_entry(file.hash, {row.problem, row.pass}, machine, arm && arm->agrees == true);
      if (arm && arm->us.known()) {
        entry["us"] = arm->us.median;
        if (!std::isnan(arm->share_of_floor)) entry["share_of_floor"] = arm->share_of_floor;
      }
      tell({.text = problem_text(row.problem) + "  " + row.pass + ": " + verdict + "\n",
            .entry = arm ? json_text(entry) : ""});
    });
  }

  template <class Take>
  void measure(const std::vector<ProblemSelection>& selections, Device device, const Take& take) {
    check_memory(selections, device);
    const BenchPart part = {.environment = environment_, .child = true, .references = references_};
    const auto sink = [&](const BenchMessage& message) {
      if (message.results) environment_ = message.results->environment;
      if (message.begins) {
        const auto number = static_cast<size_t>(message.begins->problem.value);
        tell({.row = WatchMessage::Row{selections[number].problem->layer->problem_text(),
                                       message.begins->pass}});
      }
      if (message.row) take(*message.row);
    };
    measure_rows(selections, options_, device, part, sink);
  }

  // Named where there are several.
  std::string problem_text(const std::string& problem) const {
    return problems_.size() > 1 ? "  " + problem + "\n" : "";
  }

  struct Seen {
    std::string hash;
    Elapsed since;
  };

  BenchOptions options_;
  const WatchState& state_;
  const Send& send_;
  std::vector<KernelFile> files_;
  std::map<size_t, Seen> seen_;    // by file: it is another one, perhaps not yet whole
  std::optional<size_t> changed_;  // the file to be examined
  std::set<Device> devices_;       // of the files, as far as they are there
  std::vector<BenchProblem> problems_;
  std::optional<EnvironmentRecord> environment_;
  std::vector<KeptTime> times_;
  const std::shared_ptr<KeptReferences> references_;
};

}  // namespace

nlohmann::json history_entry(const std::string& hash, const WatchMessage::Row& row,
                             const std::string& machine, bool right) {
  return {{"time", now_text()}, {"source", hash},     {"problem", row.problem},
          {"pass", row.pass},   {"machine", machine}, {"right", right}};
}

void run_watch_child(const BenchOptions& options, const WatchState& state, const Send& send) {
  WatchChild(options, state, send).run();
}

}  // namespace duet
