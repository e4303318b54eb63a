#include "selection.h"

#include <algorithm>

namespace duet {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool is_object(const RecordedArgument& argument) {
  return argument.kind == "object" && !argument.text().empty();
}

/// The objects that a call names, in its arguments or in an attribute of cuDNN's graph API.
std::vector<std::string> objects_of(const Record& record) {
  std::vector<std::string> objects;
  for (const RecordedArgument& argument : record.arguments) {
    if (is_object(argument)) objects.push_back(argument.text());
    if (argument.kind != "values") continue;
    const std::string type = argument.value.at("type");
    if (type != "cudnnBackendDescriptor_t" && type != "cudnnHandle_t") continue;
    for (const nlohmann::json& one : argument.value.at("all")) objects.push_back(one);
  }
  return objects;
}

/// The attribute that a call sets, if it names one.
std::string attribute_of(const Record& record) {
  if (record.arguments.size() < 2) return "";
  const RecordedArgument& second = record.arguments[1];
  return second.name == "attr" || second.name == "attributeName" ? second.text() : "";
}

/// Whether a backward pass takes anything of those before it: the state, or an output.
bool depends_on_earlier(const RecordedLayer& recorded, size_t begin) {
  std::set<const NamedMemory*> written;
  for (size_t i = begin; i < recorded.records.size(); ++i) {
    // Of cuDNN's graph API nobody says what is written: a gradient, in these passes.
    for (const uintptr_t address : addresses_in(recorded.records[i])) {
      const NamedMemory* memory = memory_at(recorded, address);
      if (!memory) continue;
      if (memory->role == NamedMemory::Role::kState) return true;
      if (memory->role == NamedMemory::Role::kWritten && memory->name[0] != 'd') return true;
    }
    for (const RecordedArgument& argument : recorded.records[i].arguments) {
      const NamedMemory* memory = memory_at(recorded, address_of(argument));
      if (!memory) continue;
      if (!argument.constant) written.insert(memory);
      if (memory->role == NamedMemory::Role::kState) return true;
      if (memory->role == NamedMemory::Role::kWritten && argument.constant &&
          !written.count(memory)) {
        return true;
      }
    }
  }
  return false;
}

class Selector {
 public:
  explicit Selector(const RecordedLayer& recorded) : records_(recorded.records) {
    size_t first_mark = records_.size(), last_mark = 0;
    for (size_t i = 0; i < records_.size(); ++i) {
      if (records_[i].kind != Record::Kind::kMark) continue;
      first_mark = std::min(first_mark, i);
      last_mark = i;
    }
    const bool backward = recorded.pass != Pass::kForward;
    begin_ = backward && depends_on_earlier(recorded, last_mark) ? first_mark : last_mark;
  }

  Selection result() {
    Selection selection;
    for (size_t i = begin_; i < records_.size(); ++i) {
      if (records_[i].kind == Record::Kind::kAllocation) continue;
      selection.run.push_back(&records_[i]);
      need_objects_of(records_[i]);
    }
    for (const size_t i : setup_) selection.setup.push_back(&records_[i]);
    return selection;
  }

 private:
  void need_objects_of(const Record& record) {
    for (const std::string& object : objects_of(record)) {
      if (needed_.insert(object).second) need(object);
    }
  }

  /// What makes an object and, from there on, sets it.
  void need(const std::string& object) {
    size_t made = begin_;
    for (size_t i = 0; i < begin_; ++i) {
      for (const RecordedArgument& argument : records_[i].arguments) {
        if (argument.kind == "made" && argument.text() == object) made = i;
      }
    }
    if (made == begin_) return;  // a stream, or made within the passes
    add(made);
    std::map<std::string, size_t> settings;  // the last of each
    for (size_t i = made + 1; i < begin_; ++i) {
      const Record& record = records_[i];
      if (record.kind != Record::Kind::kCall || record.status != 0) continue;
      if (!has(record.name, "Set") && !has(record.name, "MakePlan") &&
          !has(record.name, "Finalize")) {
        continue;
      }
      const RecordedArgument& target = record.arguments.front();
      if (!is_object(target) || target.text() != object) continue;
      settings[record.name + attribute_of(record)] = i;
    }
    for (const auto& [key, i] : settings) add(i);
  }

  void add(size_t i) {
    setup_.insert(i);
    need_objects_of(records_[i]);
  }

  const std::vector<Record>& records_;
  size_t begin_ = 0;
  std::set<std::string> needed_;
  std::set<size_t> setup_;
};

}  // namespace

Selection select(const RecordedLayer& recorded) { return Selector(recorded).result(); }

const NamedMemory* memory_at(const RecordedLayer& recorded, uintptr_t address) {
  for (const NamedMemory& memory : recorded.memory) {
    if (memory.address <= address && address < memory.address + memory.bytes) return &memory;
  }
  return nullptr;
}

std::vector<uintptr_t> addresses_in(const Record& record) {
  std::vector<uintptr_t> addresses;
  for (const RecordedArgument& argument : record.arguments) {
    if (argument.kind != "values" || argument.value.at("type") != "void*") continue;
    for (const nlohmann::json& one : argument.value.at("all")) {
      if (one.is_string() && !one.get<std::string>().empty()) {
        addresses.push_back(std::stoull(one.get<std::string>(), nullptr, 16));
      }
    }
  }
  return addresses;
}

uintptr_t address_of(const RecordedArgument& argument) {
  if (argument.kind != "memory" || !argument.value.is_string()) return 0;
  const std::string text = argument.value;
  return text.empty() ? 0 : std::stoull(text, nullptr, 16);
}

}  // namespace duet
