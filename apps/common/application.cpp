#include "common/application.h"

#include <fcntl.h>
#include <signal.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <string_view>

#include "core/config.h"
#include "core/error.h"
#include "core/program.h"
#include "core/running.h"
#include "core/shell_word.h"
#include "user_kernels/user_kernels.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace duet {
namespace {

constexpr size_t kMostDigits = 18;  // of an option; fit into 64 bits

// Options that were given without a value, which would count as not given.
std::string empty_values(const CLI::App& app) {
  std::string names;
  for (const CLI::Option* option : app.get_options()) {
    const auto& values = option->results();
    if (std::find(values.begin(), values.end(), "") == values.end()) continue;
    names += (names.empty() ? "" : ", ") + option->get_name();
  }
  for (const CLI::App* command : app.get_subcommands()) names += empty_values(*command);
  return names;
}

// What may have been meant by words that nothing expected.
std::string hint_of(const CLI::App& app) {
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  const std::vector<CLI::App*> commands = app.get_subcommands();
  std::string hint;
  for (const std::string& word : app.remaining(true)) {
    if (word.ends_with(".yaml") || word.ends_with(".yml")) {
      hint += " (did you mean '--config " + word + "'?)";
    } else if (std::find(known.begin(), known.end(), word) == known.end()) {
      hint += did_you_mean(word, known);
    } else if (!commands.empty()) {
      hint += " (" + word + " does not belong to '" + commands.back()->get_name() + "')";
    }
  }
  return hint;
}

// Opens /dev/null in place of descriptors 0 to 2 that the caller closed: else the first files that
// are opened get these numbers, and what is logged is written into them. Writing to a standard
// output that was closed stays an error.
void open_standard_descriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) != -1) continue;
    // open() returns the lowest number that is free, which is fd.
    if (open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY) != fd) {
      throw RunError("descriptor " + std::to_string(fd) +
                     " is closed and /dev/null cannot be opened in its place");
    }
  }
}

// Checks and the CPU family take and free large memory again and again. Given back each time, the kernel
// fills its pages with zeros anew, which took a third of the time of checking a large problem.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

// True once run() has returned or thrown. A call of exit() before that comes from a kernel of a user's file or
// from a library.
bool has_returned = false;

[[noreturn]] void end_process(int code) {
  for (;;) syscall(SYS_exit_group, code);
}

void tell_of_exit() {
  if (has_returned || Running::is_shared()) return;  // the parent of a child tells how that ended
  const std::string last = Running::last();
  std::fprintf(
      stderr,
      "error: %s ended the process by exit(): the work is not done, and only what was saved "
      "before is there; take the call out of its source\n",
      last.empty() ? "code of a kernel file or a library" : last.c_str());
  std::fflush(nullptr);
  end_process(kExitFailure);
}

// Calls of exit() and quick_exit(); _exit() stands below.
void watch_exits() {
  std::atexit(tell_of_exit);
  std::at_quick_exit(tell_of_exit);
}

int exit_code(int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    open_standard_descriptors();
    keep_freed_memory();
    set_program(argc > 0 ? argv[0] : nullptr);
    name_crashes();
    watch_exits();
    signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of a file's size fails with EFBIG
    const int code = run(argc, argv);
    // The last flush alone would not tell of an earlier one that failed.
    const bool written = std::cout.flush() && std::fflush(stdout) == 0 && !std::ferror(stdout);
    if (!written) throw RunError("cannot write to standard output");
    return code;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", message_of(e).c_str());
    return exit_code_of(e);
  }
}

}  // namespace

int run_application(int (*run)(int argc, char** argv), int argc, char** argv) {
  const int code = exit_code(run, argc, argv);
  has_returned = true;
  return code;
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    const std::string empty = empty_values(app);
    if (empty.empty()) return {};
    return tell_usage_error(app, empty + ": the value is empty");
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    const bool extras = dynamic_cast<const CLI::ExtrasError*>(&error);
    return tell_usage_error(app, error.what() + (extras ? hint_of(app) : ""));
  }
}

CLI::Validator whole_number() {
  const auto mistake = [](const std::string& text) -> std::string {
    const std::string digits = text.substr(text.starts_with('-') ? 1 : 0);
    const bool zero_first = digits.size() > 1 && digits[0] == '0';
    const bool whole = digits.find_first_not_of("0123456789") == std::string::npos;
    if (text.empty()) return "";  // told later
    const bool number = !digits.empty() && whole && !zero_first;
    if (number && digits.size() <= kMostDigits) return "";
    return "expected a whole number" +
           (number ? " of at most " + std::to_string(kMostDigits) + " digits" : std::string()) +
           ", found '" + text + "'";
  };
  return CLI::Validator(mistake, "", "whole number");
}

std::vector<CLI::Option*> add_isolation(CLI::App& app, Isolation* isolation) {
  return {
      app.add_flag("--one-process", isolation->one_process,
                   "measure in this process, where a crash ends all (for debuggers)"),
      app.add_option(
             "--patience", isolation->patience,
             "seconds that a call may take before its implementation is given up (default: 300)")
          ->type_name("SECONDS")
          ->check(whole_number())
          ->check(CLI::Range(1, 1'000'000))};
}

CLI::Option* add_kernels(CLI::App& app) {
  const auto load = [](const std::vector<std::string>& paths) {
    load_kernels({paths.begin(), paths.end()});
  };
  return app
      .add_option_function<std::vector<std::string>>(
          "--kernels", load,
          "a folder of kernels of your own, LAYER_custom_NAME.cu, or such a file; may be given "
          "several times")
      ->type_name("PATH")
      ->allow_extra_args(false);
}

int tell_usage_error(const CLI::App& app, const std::string& what) {
  std::fprintf(stderr, "error: %s\nSee '%s --help'.\n", what.c_str(),
               as_started(app.get_name()).c_str());
  return kExitUsage;
}

std::string command_text(const CLI::App& app, int argc, char** argv) {
  std::string text = app.get_name();
  for (int i = 1; i < argc; ++i) text += " " + shell_word(argv[i]);
  return text;
}

void set_up_logging(bool quiet) {
  const char* no_color = std::getenv("NO_COLOR");  // https://no-color.org
  const bool plain = no_color && *no_color;
  auto logger = plain ? spdlog::stderr_logger_st("duet") : spdlog::stderr_color_st("duet");
  logger->set_pattern("%H:%M:%S %^%v%$");
  logger->set_level(quiet ? spdlog::level::warn : spdlog::level::info);
  spdlog::set_default_logger(logger);
}

}  // namespace duet

// In place of the C library's, for what is loaded, too: nothing calls them while an implementation runs
// but its own code, and no handler is called then.
extern "C" void _exit(int code) {
  if (code == duet::kExitDone && duet::Running::runs()) duet::tell_of_exit();
  duet::end_process(code);
}
extern "C" void _Exit(int code) noexcept { _exit(code); }
