#include "lab/tune.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <thread>

#include "compare/measure/measuring_child.h"
#include "compare/results/problem.h"
#include "core/config.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "device/device.h"
#include "lab/bench_tables.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

using Variant = std::vector<TunedValue>;

constexpr size_t kMostVariants = 256;

// Every combination of the values; none where there is nothing to tune.
std::vector<Variant> combinations_of(const std::vector<TuneRow>& tunes) {
  std::vector<Variant> all;
  for (const TuneRow& tune : tunes) {
    std::vector<Variant> longer;
    for (const Variant& before : all.empty() ? std::vector<Variant>(1) : all) {
      for (int64_t i = 0; i < tune.count; ++i) {
        longer.push_back(before);
        longer.back().push_back({tune.name, tune.values[i]});
      }
    }
    all = std::move(longer);
    if (all.size() > kMostVariants) {
      throw ConfigError("--tune: DUET_TUNE names more than " + std::to_string(kMostVariants) +
                        " combinations");
    }
  }
  return all;
}

// Compiles all for the problem on every core, which leaves the code in the cache for whoever measures
// it. Those that compile and are not refused.
std::vector<Variant> compile_all(const KernelFile& file, const Layer& layer,
                                 const std::vector<Variant>& variants) {
  std::vector<char> runs(variants.size(), 0);
  std::atomic<size_t> next = 0;
  std::vector<std::exception_ptr> errors(variants.size());
  const auto work = [&] {
    for (size_t i = next++; i < variants.size(); i = next++) {
      if (InterruptGuard::requested()) return;
      try {
        runs[i] = compile_kernels(file, layer, variants[i]).refusal.empty();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::thread::hardware_concurrency(); ++i) threads.emplace_back(work);
  }
  std::vector<Variant> left;
  for (size_t i = 0; i < variants.size(); ++i) {
    if (errors[i]) std::rethrow_exception(errors[i]);
    if (runs[i]) left.push_back(variants[i]);
  }
  return left;
}

// The fastest over all passes of a problem that is right in every one of them.
std::optional<std::string> fastest(const std::vector<const BenchRow*>& rows,
                                   const std::set<std::string>& ids) {
  std::map<double, std::string> by_time;
  for (const std::string& id : ids) {
    double sum = 0;
    for (const BenchRow* row : rows) {
      double us = kUnknown;
      for (const auto& arm : row->arms) {
        if (arm && arm->implementation == id && arm->agrees == true) us = arm->us.median;
      }
      sum += us;  // not a number where it has no time
    }
    if (sum == sum) by_time.emplace(sum, id);
  }
  if (by_time.empty()) return {};
  return by_time.begin()->second;
}

class Tuning {
 public:
  Tuning(const BenchOptions& options, const KernelFile& file, std::ostream& out)
      : options_(options),
        file_(file),
        out_(out),
        problems_(read_problems(options.problems, file.device)) {}

  void run() {
    for (const BenchProblem& problem : problems_) find_variants(*problem.layer);
    if (variants_.empty()) {
      throw ConfigError(file_.path.string() + ": no combination of its DUET_TUNE values runs here");
    }
    BenchOptions options = options_;
    options.isolate = true;
    for (const auto& [id, values] : variants_) {
      add_entry(file_.type, std::make_shared<UserKernels>(file_, values));
      options.impls.push_back(id);
    }
    std::exception_ptr stopped;
    const BenchResults results = measure_bench(options, {}, &stopped);
    if (stopped) std::rethrow_exception(stopped);
    for (const BenchRow& row : results.rows) out_ << bench_row_text(row) << "\n";
    for (const BenchProblem& problem : problems_) keep(*problem.layer, results);
  }

 private:
  // In a child, as a compiler's threads are none for a process that forks.
  void find_variants(const Layer& layer) {
    const auto find = [&](const Send& send) {
      if (const auto reason = no_kernel_interface(layer)) throw UnsupportedError(*reason);
      const CompiledKernels made = compile_kernels(file_, layer);
      if (made.mistake) throw ConfigError(made.refusal);
      const auto all = combinations_of(made.tunes);
      if (all.empty() && made.refusal.empty()) {
        throw ConfigError(file_.path.string() + ": has no DUET_TUNE");
      }
      nlohmann::json left = nlohmann::json::array();
      for (const Variant& variant : compile_all(file_, layer, all)) {
        nlohmann::json values = nlohmann::json::array();
        for (const TunedValue& each : variant) values.push_back({each.name, each.value});
        left.push_back(values);
      }
      spdlog::info("{}: {} of {} combinations compile", file_.name(), left.size(), all.size());
      send(left.dump());
    };
    const ChildEnd end = measure_in_child(find, [&](const std::string& text) {
      for (const auto& values : nlohmann::json::parse(text)) {
        Variant variant;
        for (const auto& each : values) variant.push_back({each[0], each[1]});
        variants_.emplace(file_.id + "[" + tuned_text(variant) + "]", variant);
      }
    });
    InterruptGuard::check();
    if (!end.finished) throw RunError("the compiler " + end.text());
  }

  void keep(const Layer& layer, const BenchResults& results) {
    std::vector<const BenchRow*> rows;
    std::set<std::string> ids;
    for (const auto& [id, values] : variants_) ids.insert(id);
    for (const BenchRow& row : results.rows) {
      const bool runs = std::any_of(row.arms.begin(), row.arms.end(), [&](const auto& arm) {
        return arm && ids.contains(arm->implementation);
      });
      if (runs && row.problem == layer.problem_text()) rows.push_back(&row);
    }
    const auto best = rows.empty() ? std::nullopt : fastest(rows, ids);
    if (!best) {
      out_ << file_.name() << ": none is right in every pass of " << layer.problem_text() << "\n";
      return;
    }
    const Variant& values = variants_.at(*best);
    const auto& machine = results.environment.machine;
    const std::string& processor = file_.device == Device::kGpu ? machine.gpu : machine.cpu;
    const std::string why = keep_tuned(file_, layer, processor, values);
    out_ << file_.name() << ": " << tuned_text(values) << " runs " << layer.problem_text()
         << (why.empty() ? " from now on" : " best; not kept: " + why)
         << (options_.passes.empty() ? ""
                                     : ", in every pass, though " + join(options_.passes) +
                                           " alone was checked and timed")
         << "\n";
  }

  const BenchOptions& options_;
  const KernelFile& file_;
  std::ostream& out_;
  const std::vector<BenchProblem> problems_;
  std::map<std::string, Variant> variants_;  // by id
};

}  // namespace

int tune_kernels(const BenchOptions& options, std::ostream& out) {
  const InterruptGuard guard;
  bool any = false;
  for (const auto& kernels : loaded_kernels()) {
    if (kernels->file().type != options.problems.layer) continue;
    any = true;
    Tuning(options, kernels->file(), out).run();
  }
  if (!any) {
    throw ConfigError("--tune: --kernels named no kernels of " + options.problems.layer);
  }
  return kExitDone;
}

}  // namespace duet
