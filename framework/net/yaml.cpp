#include "net/yaml.h"

#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/input_file.h"

namespace duet {
namespace {

// yaml-cpp says "bad file" where brackets are nested beyond its limit.
std::string text_of(const YAML::Exception& e) {
  return e.msg == YAML::ErrorMsg::BAD_FILE ? "nested too deeply" : e.msg;
}

Mark mark_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

// A tree of aliases ("*name") can be endless, or be far larger than its text.
constexpr int kMostDepth = 50;
constexpr int kMostNodes = 100'000;
constexpr uint64_t kMostBytes = 4 << 20;  // of a file

class Converter {
 public:
  explicit Converter(ConfigErrors& errors) : errors_(errors) {}

  ConfigNode convert(const YAML::Node& yaml) {
    ConfigNode node;
    node.mark = mark_of(yaml.Mark());
    if (depth_ == kMostDepth || ++nodes_ > kMostNodes) {
      throw YAML::Exception(yaml.Mark(),
                            "nested too deeply or too large; does an alias (*name) "
                            "stand for something around it?");
    }
    ++depth_;
    switch (yaml.Type()) {
      case YAML::NodeType::Undefined:
      case YAML::NodeType::Null:
        break;
      case YAML::NodeType::Scalar:
        node.kind = ConfigNode::Kind::kScalar;
        node.scalar = yaml.Scalar();
        break;
      case YAML::NodeType::Sequence:
        node.kind = ConfigNode::Kind::kList;
        for (const auto& item : yaml) node.items.push_back(convert(item));
        break;
      case YAML::NodeType::Map: {
        node.kind = ConfigNode::Kind::kMap;
        std::set<std::string> seen;
        for (const auto& entry : yaml) {
          const Mark key_mark = mark_of(entry.first.Mark());
          if (!entry.first.IsScalar()) {
            errors_.add(key_mark, "a key must be plain text");
            continue;
          }
          const std::string key = entry.first.Scalar();
          if (!seen.insert(key).second) errors_.add(key_mark, "key '" + key + "' is given twice");
          node.entries.emplace_back(key, convert(entry.second));
          node.entries.back().second.key_mark = key_mark;
        }
        break;
      }
    }
    --depth_;
    return node;
  }

 private:
  ConfigErrors& errors_;
  int depth_ = 0;
  int nodes_ = 0;
};

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

// The child of `node` that one part of a path names, or nullptr.
ConfigNode* child_of(ConfigNode& node, const std::string& part) {
  if (node.kind != ConfigNode::Kind::kList) {
    if (!node.find(part)) mark_as_command_line(node.at_or_add(part));
    return node.find(part);
  }
  for (ConfigNode& item : node.items) {
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

}  // namespace

ConfigNode read_yaml_file(const std::string& path) {
  if (std::filesystem::is_directory(path)) {
    throw ConfigError(path + ": is a folder; give the YAML file itself");
  }
  std::string text;
  try {
    text = read_input_file(path, kMostBytes);
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
  return read_yaml(text, path);
}

ConfigNode read_yaml(const std::string& text, const std::string& name) {
  ConfigErrors errors(name);
  ConfigNode root;
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.size() > 1) {
      throw YAML::Exception(documents[1].Mark(), "a second document ('---') begins here");
    }
    if (!documents.empty()) root = Converter(errors).convert(documents[0]);
  } catch (const YAML::Exception& e) {
    const Mark mark = mark_of(e.mark);
    throw ConfigError(name + ":" + std::to_string(mark.line) + ":" + std::to_string(mark.column) +
                      ": not valid YAML: " + text_of(e));
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

void set_value(ConfigNode& root, const std::string& assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw ConfigError("--set " + assignment + ": expected a.b=value");
  }
  const std::string path = assignment.substr(0, equals);
  ConfigNode* node = &root;
  std::istringstream parts(path);
  for (std::string part; std::getline(parts, part, '.');) {
    if (part.empty()) throw ConfigError("--set " + assignment + ": expected a.b=value");
    if (node->kind == ConfigNode::Kind::kScalar) {
      throw ConfigError("--set " + assignment + ": there is nothing below '" + node->scalar + "'");
    }
    ConfigNode* next = child_of(*node, part);
    if (!next) throw ConfigError("--set " + assignment + ": no item '" + part + "' in the list");
    node = next;
  }
  ConfigErrors errors("--set " + assignment);
  try {
    *node = Converter(errors).convert(YAML::Load(assignment.substr(equals + 1)));
  } catch (const YAML::Exception& e) {
    throw ConfigError("--set " + assignment + ": not valid YAML: " + text_of(e));
  }
  errors.raise_if_any();
  mark_as_command_line(*node);
}

}  // namespace duet
