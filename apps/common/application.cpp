#include "common/application.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <cstdlib>
#include <new>
#include <regex>

#include "core/config.h"
#include "core/error.h"

namespace duet {
namespace {

// In quotes if it means something to a shell.
std::string shell_word(const std::string& text) {
  static const std::regex kPlain("[A-Za-z0-9_./,:=+%@-]+");
  if (std::regex_match(text, kPlain)) return text;
  return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'";
}

}  // namespace

int run_application(int (*run)(int argc, char** argv), int argc, char** argv) {
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) != 0) throw RunError("cannot write to standard output");
    return code;
  } catch (const Error& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return e.exit_code();
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "error: out of memory; choose a smaller batch, network or data set\n");
    return kExitFailure;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return kExitFailure;
  }
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    return {};
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::string hint;
    if (dynamic_cast<const CLI::ExtrasError*>(&error)) {
      std::vector<std::string> known;
      for (const CLI::Option* option : app.get_options()) known.push_back(option->get_name());
      for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
      for (const std::string& word : app.remaining(true)) {
        const auto near = nearest(word, known);
        if (near) hint += " (did you mean '" + *near + "'?)";
      }
    }
    return tell_usage_error(app, error.what() + hint);
  }
}

int tell_usage_error(const CLI::App& app, const std::string& what) {
  std::fprintf(stderr, "error: %s\nSee '%s --help'.\n", what.c_str(), app.get_name().c_str());
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
