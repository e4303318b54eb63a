#include "lab/watch.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "compare/measure/measuring_child.h"
#include "compare/results/results_json.h"
#include "compare/tables/format.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/program.h"
#include "device/stopwatch.h"
#include "lab/watch_child.h"
#include "net/table.h"
#include "user_kernels/starter.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

using nlohmann::json;

bool has_starter(const std::string& type) {
  const std::vector<std::string> types = starter_types();
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// Prints what the processes tell, one after the other, and keeps it for the next one.
class Watch {
 public:
  Watch(const BenchOptions& options, std::ostream& out) : options_(options), out_(out) {
    for (const auto& kernels : loaded_kernels()) {
      if (kernels->file().type != options.problems.layer) continue;
      state_.files.push_back(kernels->file());
      state_.files.back().hash.clear();
    }
    if (state_.files.empty()) {
      throw ConfigError(
          "--watch: --kernels named no kernels of " + options.problems.layer +
          (has_starter(options.problems.layer)
               ? "; '" + as_started("trainer new-kernel ") + options.problems.layer +
                     " mine' writes some to begin with"
               : ", whose files are called " + options.problems.layer + "_custom_NAME.cu"));
    }
  }

  void run() {
    const InterruptGuard guard;
    while (!InterruptGuard::requested()) run_child();
  }

 private:
  void run_child() {
    begun_ = {};
    row_ = {};
    const auto work = [this](const Send& send) { run_watch_child(options_, state_, send); };
    const auto take = [this](const std::string& text) {
      take_message(JsonReader::read<WatchMessage>(json::parse(text)));
    };
    ChildEnd end;
    try {
      end = measure_in_child(work, take);
    } catch (const Error&) {
      if (!InterruptGuard::requested()) throw;
      return;
    }
    if (!end.finished && !InterruptGuard::requested()) tell_of_end(end.text());
  }

  void take_message(const WatchMessage& message) {
    out_ << message.text << std::flush;
    if (message.environment) state_.environment = message.environment;
    if (message.times) {
      state_.times = *message.times;
      state_.times_measured = true;
    }
    if (message.begun) {
      begun_ = static_cast<size_t>(message.begun->file.value);
      since_ = Elapsed();
      file().hash = message.begun->hash;
    }
    if (message.row) row_ = message.row;
    if (!message.entry.empty()) out_ << KernelHistory(file()).add(json::parse(message.entry));
    if (message.entry.empty() && !message.done) return;
    row_ = {};
    if (message.done) begun_ = {};
  }

  // The kernels are what was at work, but for the time before the first save.
  void tell_of_end(const std::string& how) {
    if (!begun_ && state_.times_measured) {
      throw RunError("between two saves the measuring process " + how);
    }
    if (!begun_) {
      state_.times_measured = true;
      out_ << indented("there is nothing to compare with: the measuring process " + how)
           << std::flush;
      return;
    }
    if (row_) {
      out_ << "  " << row_->pass << ": WRONG\n"
           << indented(how + "; the passes behind it were not run");
      const std::string machine = state_.environment ? state_.environment->device() : "";
      out_ << KernelHistory(file()).add(history_entry(file().hash, *row_, machine, false));
    } else {
      out_ << indented("the compiler " + how);
    }
    out_ << "  " << format_seconds(since_.seconds()) << " from the save\n" << std::flush;
  }

  KernelFile& file() { return state_.files.at(*begun_); }

  const BenchOptions& options_;
  std::ostream& out_;
  WatchState state_;
  std::optional<size_t> begun_;           // the file that is examined
  std::optional<WatchMessage::Row> row_;  // of it
  Elapsed since_;
};

}  // namespace

int watch_kernels(const BenchOptions& options, std::ostream& out) {
  Watch(options, out).run();
  return kExitDone;
}

}  // namespace duet
