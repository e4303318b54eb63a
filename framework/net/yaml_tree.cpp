#include "net/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "core/number_text.h"
#include "core/utf8.h"

namespace duet {
namespace {

constexpr size_t kMostNodes = 100'000;  // aliases and anchors make far more of them than the text

Mark mark_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

size_t nodes_of(const ConfigNode& node) {
  size_t nodes = 1;
  for (const ConfigNode& item : node.items) nodes += nodes_of(item);
  for (const auto& entry : node.entries) nodes += nodes_of(entry.second);
  return nodes;
}

size_t depth_of(const ConfigNode& node) {
  size_t depth = 0;
  for (const ConfigNode& item : node.items) depth = std::max(depth, depth_of(item));
  for (const auto& entry : node.entries) depth = std::max(depth, depth_of(entry.second));
  return depth + 1;
}

// Makes the tree of one document from the parser's events. Bounds hold while it grows, so that
// nothing is ever larger. Throws YAML::Exception.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(ConfigErrors& errors) : errors_(errors) {}

  ConfigNode& root() { return root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(mark, anchor, {.kind = ConfigNode::Kind::kNull});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    if (value.size() > kMostYamlText) {
      fail(mark, "a text of " + std::to_string(value.size()) + " bytes; at most " +
                     std::to_string(kMostYamlText) + " are possible");
    }
    if (std::any_of(value.begin(), value.end(), is_control_character)) {
      fail(mark, "a text holds a control character (a new line, a tab, ...)");
    }
    add(mark, anchor, ConfigNode::of(value));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      fail(mark, "an alias (*name) stands for something around it");
    }
    if (open_.size() + depth_of(found->second) > kMostYamlDepth) fail_depth(mark);
    nodes_ += nodes_of(found->second) - 1;  // before they are copied
    if (nodes_ > kMostNodes) fail_nodes(mark);
    add(mark, 0, ConfigNode(found->second));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::kList);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, ConfigNode::Kind::kMap);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  // A list or map that is being read; for a map also the key whose value comes next.
  struct Open {
    ConfigNode node;
    YAML::anchor_t anchor;
    std::optional<std::pair<std::string, Mark>> key;
    std::set<std::string> keys;
  };

  [[noreturn]] static void fail(const YAML::Mark& mark, const std::string& what) {
    throw YAML::Exception(mark, what);
  }
  [[noreturn]] static void fail_depth(const YAML::Mark& mark) {
    fail(mark, "nested more than " + std::to_string(kMostYamlDepth) + " deep");
  }
  [[noreturn]] static void fail_nodes(const YAML::Mark& mark) {
    fail(mark, "more than " + std::to_string(kMostNodes) +
                   " values, those of anchors (&name) and aliases (*name) counted each time");
  }

  // Values are text, lists and maps; the reader of a key knows its type.
  static void check_tag(const YAML::Mark& mark, const std::string& tag) {
    const bool standard = tag.starts_with("tag:yaml.org,2002:");
    if (tag.empty() || tag == "?" || tag == "!" || standard) return;
    fail(mark,
         "a tag (!name) means nothing here; is a blank missing after the '!', or are quotes?");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            ConfigNode::Kind kind) {
    check_tag(mark, tag);
    if (open_.size() == kMostYamlDepth) fail_depth(mark);
    open_.push_back({{.kind = kind, .mark = mark_of(mark)}, anchor, {}, {}});
    mark_ = mark;
  }

  void close() {
    Open closed = std::move(open_.back());
    open_.pop_back();
    add(mark_, closed.anchor, std::move(closed.node));
  }

  void add(const YAML::Mark& mark, YAML::anchor_t anchor, ConfigNode node) {
    if (++nodes_ > kMostNodes) fail_nodes(mark);
    if (node.mark.line == 0) node.mark = mark_of(mark);
    if (anchor) {
      nodes_ += nodes_of(node);  // before they are copied
      if (nodes_ > kMostNodes) fail_nodes(mark);
      anchors_[anchor] = node;
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == ConfigNode::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      add_key(node);
    } else {
      node.key_mark = parent.key->second;
      parent.node.entries.emplace_back(std::move(parent.key->first), std::move(node));
      parent.key.reset();
    }
  }

  void add_key(const ConfigNode& key) {
    Open& map = open_.back();
    if (key.kind != ConfigNode::Kind::kScalar) {
      errors_.add(key.mark, "a key must be plain text");
    } else if (!map.keys.insert(key.scalar).second) {
      errors_.add(key.mark, "key '" + key.scalar + "' is given twice");
    }
    map.key.emplace(key.scalar, key.mark);
  }

  ConfigErrors& errors_;
  ConfigNode root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, ConfigNode> anchors_;
  size_t nodes_ = 0;
  YAML::Mark mark_;
};

// What comes after the first document, which should be nothing.
class NothingMore : public YAML::EventHandler {
 public:
  explicit NothingMore(const std::string& text) : text_(text) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    // yaml-cpp ends a document where it understands no more, and takes a ',' there for an endless
    // number of empty ones.
    throw YAML::Exception(mark, begins_document(mark)
                                    ? "a second document ('---') begins here"
                                    : "the configuration ended before this; is there a ',' or a "
                                      "bracket too many?");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  bool begins_document(const YAML::Mark& mark) const {
    size_t line = 0;
    for (int i = 0; i < mark.line && line != std::string::npos; ++i) {
      line = text_.find('\n', line);
      if (line != std::string::npos) ++line;
    }
    return line != std::string::npos && mark.column == 0 && text_.compare(line, 3, "---") == 0;
  }

  const std::string& text_;
};

// yaml-cpp takes some control characters for the end of the text, and never ends at others. It passes
// on bytes that are not UTF-8, which no checkpoint and no JSON can hold.
void check_characters(const std::string& text) {
  YAML::Mark mark;
  mark.line = mark.column = 0;
  const size_t not_utf8 = first_not_utf8(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool control = is_control_character(c) && c != '\n' && c != '\r' && c != '\t';
    if (control || i == not_utf8) {
      throw YAML::Exception(
          mark,
          printed(control ? "a control character (0x%02x); is this a text file, in UTF-8?"
                          : "a byte (0x%02x) that is not UTF-8; save the text in that encoding",
                  static_cast<unsigned char>(c)));
    }
    mark.column = c == '\n' ? 0 : mark.column + 1;
    mark.line += c == '\n';
  }
}

}  // namespace

bool is_control_character(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

ConfigNode parse_yaml(const std::string& text, ConfigErrors& errors) try {
  if (text.size() > kMostYamlBytes) {
    throw YAML::Exception(YAML::Mark(), "larger than 1 MiB");
  }
  check_characters(text);
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  TreeBuilder builder(errors);
  NothingMore nothing(text);
  if (parser.HandleNextDocument(builder)) parser.HandleNextDocument(nothing);
  return std::move(builder.root());
} catch (const YAML::Exception& e) {
  throw YamlError(mark_of(e.mark), e.msg);
}

}  // namespace duet
