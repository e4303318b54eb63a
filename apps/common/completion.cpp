#include "common/completion.h"

namespace duet {
namespace {

/// What may stand behind an option, or as a word of its own.
struct Values {
  enum Kind { kNone, kFlag, kAny, kFiles, kFolders, kListed } kind = kNone;
  std::vector<std::string> listed = {};
};

struct Option {
  std::vector<std::string> names;  // "--config"
  std::string description;
  Values values;
};

/// The application itself, with name "", or one of its commands.
struct Command {
  std::string name, description;
  std::vector<Option> options;
  Values words;  // that are no options
};

std::string joined(const std::vector<std::string>& words, const std::string& separator = " ") {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

Values values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (option.get_items_expected_max() == 0) return {Values::kFlag};
  const size_t open = type.find('{');
  if (open != std::string::npos && type.back() == '}') {
    return {Values::kListed,
            CLI::detail::split(type.substr(open + 1, type.size() - open - 2), ',')};
  }
  if (type == "DIR" || type == "RUN") return {Values::kFolders};
  for (const char* file : {"FILE", "CKPT", "PATH", "IMAGE"}) {
    if (type.rfind(file, 0) == 0) return {Values::kFiles};
  }
  return {Values::kAny};
}

Command command_of(const CLI::App& app, const std::string& name) {
  Command command{name, app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      command.words = values_of(*option);
      continue;
    }
    std::vector<std::string> names;
    for (const std::string& letter : option->get_snames()) names.push_back("-" + letter);
    for (const std::string& word : option->get_lnames()) names.push_back("--" + word);
    command.options.push_back({names, option->get_description(), values_of(*option)});
  }
  return command;
}

// The application first.
std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> commands = {command_of(app, "")};
  for (const CLI::App* command : app.get_subcommands({})) {
    commands.push_back(command_of(*command, command->get_name()));
  }
  return commands;
}

// Within single quotes of a shell.
std::string in_quotes(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) result += letter == '\'' ? "'\\''" : std::string(1, letter);
  return result + "'";
}

// ---- bash ----

// Assignments of what is offered: words of a list, and the option of compgen for files.
std::string offers(const std::vector<std::string>& words, const Values& values) {
  std::vector<std::string> all = words;
  all.insert(all.end(), values.listed.begin(), values.listed.end());
  const std::string files = values.kind == Values::kFiles     ? "-f"
                            : values.kind == Values::kFolders ? "-d"
                                                              : "''";
  return "words=" + in_quotes(joined(all)) + " files=" + files;
}

std::vector<std::string> names_of(const std::vector<Option>& options, bool with_values) {
  std::vector<std::string> names;
  for (const Option& option : options) {
    if (with_values && option.values.kind == Values::kFlag) continue;
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::string bash_case(const Command& command, const std::vector<std::string>& words) {
  std::string text = "    " + (command.name.empty() ? "''" : command.name) + ")\n      " +
                     offers(words, command.words) +
                     "\n      options=" + in_quotes(joined(names_of(command.options, false))) +
                     "\n      case $previous in\n";
  for (const Option& option : command.options) {
    if (option.values.kind == Values::kFlag) continue;
    text += "        " + joined(option.names, " | ") + ") " + offers({}, option.values) +
            " options='' ;;\n";
  }
  return text + "      esac\n      ;;\n";
}

std::string bash_script(const std::string& name, const std::vector<Command>& commands) {
  std::vector<std::string> words;
  for (const Command& command : commands) {
    if (!command.name.empty()) words.push_back(command.name);
  }
  std::string text = "# source <(" + name + " completion bash)\n_" + name + R"(() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
  local command='' words='' files='' options='' i
  for ((i = 1; i < COMP_CWORD; ++i)); do
)";
  text += "    case ${COMP_WORDS[i - 1]} in " + joined(names_of(commands[0].options, true), " | ") +
          ") continue ;; esac\n    case ${COMP_WORDS[i]} in " + joined(words, " | ") +
          ") command=${COMP_WORDS[i]} && break ;; esac\n  done\n  case $command in\n";
  for (const Command& command : commands) {
    text += bash_case(command, command.name.empty() ? words : std::vector<std::string>());
  }
  text += R"(  esac
  [[ $current == -* ]] && words=$options files=''
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [ -n "$files" ]; then
    compopt -o filenames 2>/dev/null
    local IFS=$'\n'
    COMPREPLY+=($(compgen $files -- "$current"))
  fi
  return 0
}
)";
  return text + "complete -F _" + name + " " + name + "\n";
}

// ---- zsh ----

// A description within the brackets of _arguments, and what follows a colon.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    if (letter == '[' || letter == ']' || letter == ':' || letter == '\\') result += '\\';
    result += letter;
  }
  return result;
}

std::string action_of(const Values& values) {
  switch (values.kind) {
    case Values::kFiles:
      return "_files";
    case Values::kFolders:
      return "_files -/";
    case Values::kListed:
      return "(" + joined(values.listed) + ")";
    default:
      return " ";
  }
}

std::string zsh_options(const Command& command, const std::string& indent) {
  std::string text;
  for (const Option& option : command.options) {
    for (const std::string& name : option.names) {
      std::string spec = name + "[" + escaped(option.description) + "]";
      if (option.values.kind != Values::kFlag) spec += ":value:" + action_of(option.values);
      text += " \\\n" + indent + in_quotes(spec);
    }
  }
  return text;
}

std::string zsh_script(const std::string& name, const std::vector<Command>& commands) {
  std::string text = "#compdef " + name + "\n# source <(" + name + " completion zsh)\n_" + name +
                     "() {\n  local context state line\n  typeset -A opt_args\n  local -a commands "
                     "=(\n";
  // No blank before "=" in an assignment.
  text.erase(text.rfind(" =("), 1);
  for (const Command& command : commands) {
    if (command.name.empty()) continue;
    text += "    " + in_quotes(command.name + ":" + escaped(command.description)) + "\n";
  }
  text += "  )\n  _arguments -C" + zsh_options(commands[0], "    ") +
          " \\\n    '1: :->command' '*:: :->words'\n  case $state in\n    command) _describe "
          "command commands ;;\n    words)\n      case $line[1] in\n";
  for (const Command& command : commands) {
    if (command.name.empty()) continue;
    text += "        " + command.name + ")\n          _arguments" +
            zsh_options(command, "            ");
    if (command.words.kind != Values::kNone) {
      text += " \\\n            " + in_quotes("*:word:" + action_of(command.words));
    }
    text += "\n          ;;\n";
  }
  return text + "      esac\n      ;;\n  esac\n}\nif [ \"${funcstack[1]-}\" = _" + name +
         " ]; then _" + name + " \"$@\"; else compdef _" + name + " " + name + "; fi\n";
}

// ---- fish ----

// Within single quotes of fish, where a backslash escapes.
std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') result += '\\';
    result += letter;
  }
  return result + "'";
}

std::string fish_values(const Values& values) {
  switch (values.kind) {
    case Values::kFlag:
      return "";
    case Values::kFiles:
      return " -r -F";
    case Values::kFolders:
      return " -x -a '(__fish_complete_directories)'";
    case Values::kListed:
      return " -x -a " + fish_quoted(joined(values.listed));
    default:
      return " -x";
  }
}

std::string fish_script(const std::string& name, const std::vector<Command>& commands) {
  std::string text = "# " + name + " completion fish | source\ncomplete -c " + name + " -f\n";
  for (const Command& command : commands) {
    const std::string start =
        "complete -c " + name + " -n " +
        (command.name.empty() ? "__fish_use_subcommand"
                              : fish_quoted("__fish_seen_subcommand_from " + command.name));
    if (!command.name.empty()) {
      text += "complete -c " + name + " -n __fish_use_subcommand -a " + command.name + " -d " +
              fish_quoted(command.description) + "\n";
    }
    for (const Option& option : command.options) {
      text += start;
      for (const std::string& word : option.names) {
        text += word.rfind("--", 0) == 0 ? " -l " + word.substr(2) : " -s " + word.substr(1);
      }
      text += fish_values(option.values) + " -d " + fish_quoted(option.description) + "\n";
    }
    const Values& words = command.words;
    if (words.kind == Values::kFiles) text += start + " -F\n";
    if (words.kind == Values::kFolders || words.kind == Values::kListed) {
      text += start + fish_values(words) + "\n";
    }
  }
  return text;
}

}  // namespace

const std::vector<std::string>& completion_shells() {
  static const std::vector<std::string> shells = {"bash", "zsh", "fish"};
  return shells;
}

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const std::vector<Command> commands = commands_of(app);
  const std::string& name = app.get_name();
  if (shell == "bash") return bash_script(name, commands);
  return shell == "zsh" ? zsh_script(name, commands) : fish_script(name, commands);
}

}  // namespace duet
