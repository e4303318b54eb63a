#include "compare/arms.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "compare/measure/running_graph.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/running.h"
#include "device/stopwatch.h"
#include "measure/time/measure_pass.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/run/config_changes.h"

namespace duet {
namespace {

constexpr const char* kCpuArms = "'--a cpu_blas --b cpu_reference'";

bool is_file(const std::string& request) {
  return request.ends_with(".yaml") || request.ends_with(".yml");
}

std::string name_of(const std::string& request) {
  return is_file(request) ? std::filesystem::path(request).stem().string() : request;
}

// The lines of several errors, each once: arms of one file share its mistakes.
class Mistakes {
 public:
  void add(const Error& error) {
    only_unsupported_ &= error.exit_code() == kExitUnsupported;
    const std::string text = error.what();
    for (size_t start = 0; start <= text.size();) {
      const size_t end = std::min(text.find('\n', start), text.size());
      add_line(text.substr(start, end - start));
      start = end + 1;
    }
  }
  bool empty() const { return lines_.empty(); }
  void raise_if_any() const {
    if (empty()) return;
    if (only_unsupported_) throw UnsupportedError(join(lines_, "\n"));
    throw ConfigError(join(lines_, "\n"));
  }

 private:
  void add_line(const std::string& line) {
    if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) lines_.push_back(line);
  }

  std::vector<std::string> lines_;
  bool only_unsupported_ = true;
};

// ---- the same task ----

// Changes that arms may show: of how something is computed, or reported, and not of what.
bool may_differ(const ConfigChange& change) {
  return change.kind == ConfigChange::Kind::kImplementation || change.key == "name" ||
         change.key == "math" || change.key == "train.log_every";
}

std::vector<std::string> layer_types_of(const NetSpec& spec) {
  std::vector<std::string> types;
  for (const LayerSpec& layer : spec.layers) {
    types.push_back(layer.name + " (" + std::string(layer.layer->type()) + ")");
  }
  return types;
}

// What the two arms compute differently, a line each; names both sides.
std::vector<std::string> differences(const Arm& a, const ConfigNode& config_a, const Arm& b,
                                     const ConfigNode& config_b) {
  const auto types_a = layer_types_of(a.spec), types_b = layer_types_of(b.spec);
  std::vector<std::string> lines;
  const auto differs = [&](const std::string& what, const std::string& in_a,
                           const std::string& in_b) {
    lines.push_back(b.request + ": " + what + " is " + in_b + ", but " + in_a + " in arm '" +
                    a.name + "'");
  };
  if (types_a != types_b) {
    differs("the list of layers", join(types_a), join(types_b));
    differs("the number of parameters", format_count(parameter_count(a.layers)),
            format_count(parameter_count(b.layers)));
    return lines;  // that the keys differ follows from it
  }
  for (const ConfigChange& change : config_changes(config_a, config_b)) {
    if (may_differ(change)) continue;
    differs(change.key, "'" + change.before + "'", "'" + change.now + "'");
  }
  return lines;
}

// ---- reading ----

// Why an arm cannot run on this machine, or nothing.
std::optional<std::string> missing_gpu(const std::string& name, const std::string& backend) {
  const bool listed = backend.starts_with("custom") || backend.starts_with("cudnn");
  if (!listed || gpu_available()) return {};
  return "arm '" + name + "' needs a GPU: " + gpu_missing_reason(kCpuArms);
}

Arm arm_of(const ArmsOptions& options, const std::string& request) {
  Arm arm{.name = name_of(request), .request = request};
  arm.options = {.config = is_file(request) ? request : options.config,
                 .assignments = options.assignments,
                 .epochs = options.epochs,
                 .part_of_run = options.part_of_run};
  if (!is_file(request)) arm.options.backend = request;
  return arm;
}

// The implementations of a network, how they are called, and on what.
std::string code_of(const Setup& setup) {
  std::string code =
      setup.spec.graph ? "graph of " + std::to_string(setup.spec.graph_steps) : "calls";
  code += ", workspace of " + std::to_string(workspace_limit(setup.spec));
  for (const ResolvedLayer& layer : setup.layers) {
    code += "\n" + std::string(layer.layer->type()) + " " + task_text(*layer.layer);
    for (const PassChoice& choice : layer.passes) {
      code += ", " + std::string(to_string(choice.pass)) + " " + choice.id;
    }
  }
  return code;
}

void tell_apart(std::vector<Arm>* arms) {
  std::map<std::string, int> counts;
  for (Arm& arm : *arms) {
    const int count = ++counts[arm.name];
    if (count > 1) arm.name += "#" + std::to_string(count);
  }
}

}  // namespace

Setup Arm::setup(std::optional<int64_t> batch, std::optional<uint64_t> seed) const {
  SetupOptions with = options;
  if (batch) with.assignments.push_back("data.batch=" + std::to_string(*batch));
  if (seed) with.seed = static_cast<int64_t>(*seed);
  return read_setup(file, with);
}

std::vector<std::string> default_arms() {
  if (gpu_available()) return {"custom", "cudnn"};
  return {"cpu_blas", "cpu_reference"};
}

namespace {

std::vector<std::string> with_defaults(std::vector<std::string> requests) {
  const auto defaults = default_arms();
  if (requests.empty()) return defaults;
  for (std::string& request : requests) {
    if (!request.empty()) continue;
    const bool taken = std::find(requests.begin(), requests.end(), defaults[0]) != requests.end();
    request = defaults[taken ? 1 : 0];
  }
  return requests;
}

}  // namespace

std::vector<Arm> read_arms(const ArmsOptions& options) {
  std::vector<Arm> arms;
  std::vector<ConfigNode> configs;
  Mistakes mistakes;
  for (const std::string& request : with_defaults(options.requests)) {
    arms.push_back(arm_of(options, request));
    configs.emplace_back();
  }
  tell_apart(&arms);
  std::map<std::string, ConfigNode> files;  // arms of one file share one reading of it
  for (const std::string& assignment : options.assignments) {
    if (!assignment.starts_with("backend=") && !assignment.starts_with("backend.")) continue;
    mistakes.add(ConfigError("--set " + assignment +
                             ": the arms say what computes; name it with --a, --b or --arm"));
  }
  mistakes.raise_if_any();
  for (size_t i = 0; i < arms.size(); ++i) {
    Arm& arm = arms[i];
    try {
      if (const auto reason = missing_gpu(arm.name, arm.options.backend.value_or(""))) {
        throw UnsupportedError(*reason);
      }
      const std::string& path = arm.options.config;
      if (!files.contains(path)) files[path] = read_yaml_file(path);
      arm.file = files[path];
      Setup setup = arm.setup();
      if (const auto reason = missing_gpu(arm.name, setup.spec.backend.name)) {
        throw UnsupportedError(*reason);
      }
      arm.config = write_yaml(setup.config);
      arm.spec = std::move(setup.spec);
      arm.layers = std::move(setup.layers);
      configs[i] = std::move(setup.config);
    } catch (const Error& error) {
      mistakes.add(error);
    }
  }
  mistakes.raise_if_any();
  for (size_t i = 1; i < arms.size(); ++i) {
    const auto lines = differences(arms[0], configs[0], arms[i], configs[i]);
    if (lines.empty()) continue;
    mistakes.add(ConfigError(join(lines, "\n")));
  }
  if (!mistakes.empty()) {
    mistakes.add(
        ConfigError("arms must train the same network on the same task, and may differ only in how "
                    "they compute it (backend, layout, fuse, graph, math)"));
  }
  mistakes.raise_if_any();
  return arms;
}

RunningArm::RunningArm(const Arm& arm, const Dataset& dataset, std::optional<int64_t> batch,
                       std::optional<uint64_t> seed)
    : arm_(arm), setup_(arm.setup(batch, seed)), context_(device_of(setup_.spec)) {
  check_batch(setup_, arm.options.config, dataset);
  const Elapsed watch;
  context_.set_workspace_limit(workspace_limit(setup_.spec));
  choose_implementations(setup_, context_);
  training_ = std::make_unique<Training>(setup_.spec, setup_.layers, dataset,
                                         std::move(setup_.optimizer), setup_.schedule, context_);
  training_->prepare();
  context_.synchronize();
  prepare_seconds_ = watch.seconds();
}

namespace {

/// `some(arm, most)` queues some of the next `most` and returns how many.
template <class Some>
Workload steps_in_groups(RunningArm& arm, const char* text, Some some) {
  return {[&arm, text, some](int64_t calls) {
            const auto running = running_graph(arm, text);
            const auto run = [&] {
              while (calls > 0 && !InterruptGuard::requested()) calls -= some(arm, calls);
            };
            return seconds_of(arm.context(), run, 1);
          },
          code_of(arm.setup())};
}

}  // namespace

Workload training_steps(RunningArm& arm) {
  return steps_in_groups(arm, "a training step", [](RunningArm& each, int64_t most) {
    return each.training().step_some(most);
  });
}

Workload inference_steps(RunningArm& arm) {
  return steps_in_groups(arm, "inference of a batch", [](RunningArm& each, int64_t most) {
    return each.training().evaluation().infer_some(most);
  });
}

}  // namespace duet
