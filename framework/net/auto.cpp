#include "net/auto.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "core/error.h"
#include "measure/time/environment.h"
#include "measure/time/measure_pass.h"
#include "net/auto_trial.h"
#include "net/spec.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBuilt = "built";           // entry of the cache: which program measured
constexpr int64_t kFailed = -1, kFarSlower = -2;  // entries instead of nanoseconds

// Where, with how much scratch memory, and what for.
struct Place {
  Device device;
  size_t workspace_limit;
  NetMode mode;

  LayerSituation situation() const { return {.training = mode == NetMode::kTraining}; }
};

// Choices that are made together.
struct Question {
  ResolvedLayer* layer;
  std::vector<PassChoice*> passes;

  std::vector<Pass> pass_list() const {
    std::vector<Pass> list;
    for (const PassChoice* choice : passes) list.push_back(choice->pass);
    return list;
  }
  std::string name() const {
    return layer->name + (passes.size() > 1 ? "" : " " + std::string(to_string(passes[0]->pass)));
  }
};

std::vector<Question> questions(std::vector<ResolvedLayer>& layers, NetMode mode) {
  std::vector<Question> all;
  for (ResolvedLayer& layer : layers) {
    Question together{&layer};
    for (PassChoice& choice : layer.passes) {
      const bool will_run =
          mode == NetMode::kInference ? choice.pass == Pass::kForward : runs(layer, choice.pass);
      if (choice.id != kAuto || !will_run) continue;
      if (layer.layer->chooses_per_pass()) {
        all.push_back({&layer, {&choice}});
      } else {
        together.passes.push_back(&choice);
      }
    }
    if (!together.passes.empty()) all.push_back(together);
  }
  return all;
}

std::vector<Pass> open_passes(const ResolvedLayer& layer, const std::vector<Question>& questions) {
  std::vector<Pass> open;
  for (const Question& question : questions) {
    if (question.layer != &layer) continue;
    for (Pass pass : question.pass_list()) open.push_back(pass);
  }
  return open;
}

// Passes that nobody runs: by an implementation that the layer has already, if it can.
void settle_unused(ResolvedLayer& layer) {
  for (PassChoice& choice : layer.passes) {
    if (choice.id != kAuto) continue;
    choice.id = choice.candidates.front().id;
    for (const PassChoice& other : layer.passes) {
      const bool can = std::any_of(choice.candidates.begin(), choice.candidates.end(),
                                   [&](const AutoCandidate& each) { return each.id == other.id; });
      if (can && other.id != kAuto) choice.id = other.id;
    }
    choice.candidates.clear();
  }
}

// What was measured on, in words.
const std::string& machine(Device device) {
  static const Environment environment = read_environment();
  static const std::string cpu =
      environment.cpu + ", " + std::to_string(environment.cpu_threads) + " threads";
  static const std::string gpu = [] {
    std::string text = environment.gpu + ", driver " + environment.driver;
    for (const auto& [name, version] : environment.versions) text += ", " + name + " " + version;
    return text;
  }();
  return device == Device::kCpu ? cpu : gpu;
}

// Everything that a time depends on but the program itself.
std::string key_of(const Question& question, const Place& place) {
  const Layer& layer = *question.layer->layer;
  std::string key(layer.type());
  for (Pass pass : question.pass_list()) key += " " + std::string(to_string(pass));
  // The others compute the same in training.
  if (!place.situation().training && !layer.chooses_per_pass()) key += " in evaluation";
  return key + " | " + task_text(layer) + " | " + machine(place.device) + ", workspace of " +
         std::to_string(place.workspace_limit);
}

// A number that changes when the program does: a kernel may have been rewritten under its old name.
int64_t program_stamp() {
  struct stat status {};
  if (stat("/proc/self/exe", &status) != 0) return 0;
  return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// What the cache calls a candidate: a user's kernels are others when their source is.
std::string cached_name(const Question& question, const std::string& id) {
  const auto own = find_kernels(question.layer->layer->type(), id);
  return own ? id + " " + own->file().hash : id;
}

// Takes the best of `candidates` for all passes of the question; says why if there is none.
void settle(const Question& question, std::vector<AutoCandidate> candidates) {
  std::stable_sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) {
    const auto rank = [](const AutoCandidate& c) { return c.fault.empty() ? c.far_slower : 2; };
    if (rank(a) != rank(b)) return rank(a) < rank(b);
    return a.microseconds < b.microseconds;
  });
  if (!candidates.front().fault.empty()) {
    std::string reasons;
    for (const AutoCandidate& candidate : candidates) {
      reasons += "\n  " + candidate.id + ": " + candidate.fault;
    }
    throw UnsupportedError("backend 'auto': no implementation of " + question.name() + " (" +
                           std::string(question.layer->layer->type()) + ", " +
                           question.layer->layer->problem_text() + ") is right here:" + reasons);
  }
  for (PassChoice* choice : question.passes) {
    choice->id = candidates.front().id;
    choice->candidates = candidates;
  }
}

// False if the cache has no entry, or one of another program or of other candidates.
bool recall(const Question& question, const Place& place, const TuningCache& cache) {
  const auto entry = cache.find(key_of(question, place));
  std::vector<AutoCandidate> candidates = question.passes.front()->candidates;
  if (!entry || entry->size() != candidates.size() + 1) return false;
  const auto built = entry->find(kBuilt);
  if (built == entry->end() || built->second != program_stamp()) return false;
  bool any = false;
  for (AutoCandidate& candidate : candidates) {
    const auto found = entry->find(cached_name(question, candidate.id));
    if (found == entry->end()) return false;
    any |= found->second > 0;
    if (found->second > 0) {
      candidate.microseconds = 1e-3 * static_cast<double>(found->second);
    } else if (found->second == kFarSlower) {
      candidate.far_slower = true;
    } else {
      candidate.fault = "failed its check in an earlier run";
    }
  }
  if (!any) return false;  // then the reasons are wanted
  settle(question, std::move(candidates));
  return true;
}

void remember(const Question& question, const Place& place,
              const std::vector<AutoCandidate>& candidates, TuningCache& cache) {
  TuningCache::Entry entry = {{kBuilt, program_stamp()}};
  for (const AutoCandidate& candidate : candidates) {
    entry[cached_name(question, candidate.id)] = !candidate.fault.empty() ? kFailed
                                                 : candidate.far_slower
                                                     ? kFarSlower
                                                     : std::llround(1e3 * candidate.microseconds);
  }
  cache.insert(key_of(question, place), entry);
}

}  // namespace

fs::path auto_cache_path() { return TuningCache::path_of("auto.json"); }

size_t recall_choices(std::vector<ResolvedLayer>& layers, Device device, size_t workspace_limit,
                      const TuningCache& cache, NetMode mode) {
  const Place place = {device, workspace_limit, mode};
  size_t left = 0;
  for (const Question& question : questions(layers, mode)) {
    if (!recall(question, place, cache)) left += question.passes.size();
  }
  if (left == 0) {
    for (ResolvedLayer& layer : layers) settle_unused(layer);
  }
  return left;
}

void choose_automatically(std::vector<ResolvedLayer>& layers, Context& context, TuningCache& cache,
                          const AutoLog& log, NetMode mode) {
  const Place place = {context.device(), context.workspace_limit(), mode};
  const size_t left = recall_choices(layers, place.device, place.workspace_limit, cache, mode);
  if (left == 0) return;
  log.info("auto: measuring the implementations of " + std::to_string(left) + " passes");
  const ResolvedLayer* tried = nullptr;
  std::optional<AutoTrial> trial;
  const std::vector<Question> open = questions(layers, mode);
  for (const Question& question : open) {
    // A layer before it may have had the same problem.
    if (recall(question, place, cache)) continue;
    if (question.layer != tried) {
      trial.emplace(*question.layer->layer, open_passes(*question.layer, open), place.situation(),
                    context);
      tried = question.layer;
    }
    std::vector<AutoCandidate> candidates = question.passes.front()->candidates;
    trial->run(question.pass_list(), candidates);
    for (AutoCandidate& candidate : candidates) {
      // Whole nanoseconds, as they are kept: a time looks the same in the next run.
      const auto nanoseconds = std::llround(1e3 * candidate.microseconds);
      if (candidate.microseconds > 0) {
        candidate.microseconds = 1e-3 * static_cast<double>(std::max(1LL, nanoseconds));
      }
    }
    for (const AutoCandidate& candidate : candidates) {
      if (candidate.fault.empty()) continue;
      log.warn("auto: " + question.name() + ": " + candidate.id + " is left out: it " +
               candidate.fault);
    }
    remember(question, place, candidates, cache);
    settle(question, std::move(candidates));
  }
  for (ResolvedLayer& layer : layers) settle_unused(layer);
}

}  // namespace duet
