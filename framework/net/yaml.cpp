#include "net/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "core/input_file.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "net/yaml_tree.h"

namespace duet {
namespace {

void mark_as_command_line(ConfigNode& node) {
  node.mark = node.key_mark = {Mark::kCommandLine, 0};
  for (ConfigNode& item : node.items) mark_as_command_line(item);
  for (auto& [key, value] : node.entries) mark_as_command_line(value);
}

void emit(YAML::Emitter& out, const ConfigNode& node, bool flow) {
  switch (node.kind) {
    case ConfigNode::Kind::kNull:
      out << YAML::Null;
      break;
    case ConfigNode::Kind::kScalar:
      out << node.scalar;
      break;
    case ConfigNode::Kind::kList: {
      bool scalars = true;
      for (const ConfigNode& item : node.items) scalars &= item.kind == ConfigNode::Kind::kScalar;
      if (flow || scalars) out << YAML::Flow;
      out << YAML::BeginSeq;
      for (const ConfigNode& item : node.items) emit(out, item, true);  // one layer a line
      out << YAML::EndSeq;
      break;
    }
    case ConfigNode::Kind::kMap:
      if (flow) out << YAML::Flow;
      out << YAML::BeginMap;
      for (const auto& [key, value] : node.entries) {
        out << YAML::Key << key << YAML::Value;
        emit(out, value, flow);
      }
      out << YAML::EndMap;
      break;
  }
}

// Where YAML finds nothing at all, though something is there: "%s", "#1".
bool is_no_value(const ConfigNode& node, const std::string& text) {
  const bool blank = text.find_first_not_of(" \t\r\n") == std::string::npos;
  return node.kind == ConfigNode::Kind::kNull && node.mark.line == 0 && !blank;
}

// Of line number `line`, from 1.
bool is_indented_with_tab(const std::string& text, int line) {
  std::istringstream lines(text);
  std::string content;
  for (int i = 0; i < line; ++i) std::getline(lines, content);
  const size_t tab = content.find('\t');
  return tab != std::string::npos && tab < content.find_first_not_of(" \t");
}

// Takes the first part off `path`: in a list the longest name of an item that it begins with, else
// what stands before a dot.
std::string take_part(const ConfigNode& node, std::string& path) {
  size_t length = path.find('.');
  for (const ConfigNode& item : node.items) {
    const ConfigNode* name = item.find("name");
    if (name && (path + ".").starts_with(name->scalar + ".") &&
        (length == std::string::npos || name->scalar.size() > length)) {
      length = name->scalar.size();
    }
  }
  std::string part = path.substr(0, length);
  path.erase(0, length == std::string::npos ? length : length + 1);
  return part;
}

// The child of `node` that one part of a path names, or nullptr.
const ConfigNode* child_of(const ConfigNode& node, const std::string& part) {
  if (node.kind != ConfigNode::Kind::kList) return node.find(part);
  for (const ConfigNode& item : node.items) {
    const ConfigNode* name = item.find("name");
    if (name && name->scalar == part) return &item;
  }
  if (!part.empty() && part.size() < 9 &&
      part.find_first_not_of("0123456789") == std::string::npos) {
    const size_t index = std::stoul(part);
    if (index < node.items.size()) return &node.items[index];
  }
  return nullptr;
}

// `rest` is what the path goes on with: a name may hold dots, and the last part is a key.
std::string no_item(const ConfigNode& list, const std::string& part, const std::string& rest) {
  std::vector<std::string> names;
  for (const ConfigNode& item : list.items) {
    if (const ConfigNode* name = item.find("name")) names.push_back(name->scalar);
  }
  const size_t key = rest.rfind('.');
  const std::string wanted = part + (key == std::string::npos ? "" : "." + rest.substr(0, key));
  return "no item '" + wanted + "' in the list" + did_you_mean(wanted, names);
}

}  // namespace

ConfigNode read_yaml_file(const std::string& path) {
  std::error_code ignored;  // what cannot be looked at cannot be opened either
  if (std::filesystem::is_directory(path, ignored)) {
    throw ConfigError(path + ": is a folder; give the YAML file itself");
  }
  std::string text;
  try {
    text = read_input_file(path, kMostYamlBytes);
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
  return read_yaml(text, path);
}

ConfigNode read_yaml(const std::string& text, const std::string& name) {
  ConfigErrors errors(name);
  ConfigNode root;
  try {
    root = parse_yaml(text, errors);
  } catch (const YamlError& e) {
    const bool tab = is_indented_with_tab(text, e.mark.line);
    throw ConfigError(
        name + ":" + std::to_string(e.mark.line) + ":" + std::to_string(tab ? 1 : e.mark.column) +
        ": not valid YAML: " +
        (tab ? "the line is indented with a tab; YAML allows blanks only" : e.what()));
  }
  errors.raise_if_any();
  if (root.kind == ConfigNode::Kind::kNull) {
    throw ConfigError(name + ": is empty; expected 'key: value' lines");
  }
  if (root.kind != ConfigNode::Kind::kMap) {
    throw ConfigError(name + ": expected 'key: value' lines at the top level");
  }
  return root;
}

std::string write_yaml(const ConfigNode& node) {
  YAML::Emitter out;
  emit(out, node, false);
  return std::string(out.c_str()) + "\n";
}

bool has_place_for(const ConfigNode& root, const std::string& assignment) {
  const ConfigNode* node = &root;
  std::string rest = assignment.substr(0, assignment.find('='));
  while (node) {
    const std::string part = take_part(*node, rest);
    if (rest.empty()) return true;
    node = child_of(*node, part);
  }
  return false;
}

void set_value(ConfigNode& root, const std::string& assignment) {
  const std::string option = "--set " + printable(assignment);
  const size_t equals = assignment.find('=');
  const std::string path = assignment.substr(0, equals);
  const auto depth = static_cast<size_t>(std::count(path.begin(), path.end(), '.'));
  if (equals == std::string::npos || equals == 0 || path.size() > kMostYamlText ||
      path.back() == '.' || depth >= kMostYamlDepth ||
      std::any_of(path.begin(), path.end(), is_control_character)) {
    throw ConfigError(option + ": expected a.b=value");
  }
  if (!is_utf8(path)) throw ConfigError(option + ": the key is not UTF-8");
  ConfigNode* node = &root;
  for (std::string rest = path; !rest.empty();) {
    const std::string part = take_part(*node, rest);
    if (part.empty()) throw ConfigError(option + ": expected a.b=value");
    if (node->kind == ConfigNode::Kind::kScalar) {
      throw ConfigError(option + ": there is nothing below '" + node->scalar + "'");
    }
    auto* next = const_cast<ConfigNode*>(child_of(*node, part));
    if (!next && node->kind == ConfigNode::Kind::kList) {
      throw ConfigError(option + ": " + no_item(*node, part, rest));
    }
    if (!next) {
      next = &node->at_or_add(part);
      mark_as_command_line(*next);
    }
    node = next;
  }
  ConfigErrors errors(option);
  const std::string value = assignment.substr(equals + 1);
  try {
    *node = parse_yaml(value, errors);
  } catch (const YamlError& e) {
    throw ConfigError(option + ": not valid YAML: " + e.what());
  }
  errors.raise_if_any();
  if (is_no_value(*node, value)) {
    throw ConfigError(option + ": '" + printable(value) +
                      "' is no YAML value; put it in quotes ('\"...\"') if it is text");
  }
  mark_as_command_line(*node);
}

}  // namespace duet
