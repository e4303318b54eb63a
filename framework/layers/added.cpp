#include "layers/added.h"

#include <map>

namespace duet {
namespace {

using Entries = std::vector<std::shared_ptr<const AddedEntry>>;

std::map<std::string, Entries, std::less<>>& all_entries() {
  static std::map<std::string, Entries, std::less<>> entries;
  return entries;
}

Entries& entries_of(std::string_view type) { return all_entries()[std::string(type)]; }

}  // namespace

void add_entry(std::string_view type, std::shared_ptr<const AddedEntry> entry) {
  Entries& entries = entries_of(type);
  for (auto& each : entries) {
    if (each->id() == entry->id()) {
      each = std::move(entry);
      return;
    }
  }
  entries.push_back(std::move(entry));
}

void remove_entry(std::string_view type, std::string_view id) {
  std::erase_if(entries_of(type), [&](const auto& each) { return each->id() == id; });
}

std::shared_ptr<const AddedEntry> find_added(std::string_view type, std::string_view id) {
  const auto found = all_entries().find(type);
  if (found == all_entries().end()) return nullptr;
  for (const auto& each : found->second) {
    if (each->id() == id) return each;
  }
  return nullptr;
}

std::vector<ImplInfo> with_added(std::string_view type, std::vector<ImplInfo> list) {
  const auto found = all_entries().find(type);
  if (found == all_entries().end()) return list;
  for (const auto& each : found->second) list.push_back({each->id()});
  return list;
}

}  // namespace duet
