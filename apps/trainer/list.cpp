#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "commands.h"
#include "data/set/dataset.h"
#include "layers/layers.h"
#include "net/expand.h"
#include "net/table.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "user_kernels/user_kernels.h"

namespace {

using nlohmann::json;

// Rows of (key, value) pairs: objects for --json, a table otherwise.
void print(const std::vector<std::vector<std::pair<std::string, std::string>>>& rows,
           bool as_json) {
  if (as_json) {
    json list = json::array();
    for (const auto& row : rows) {
      json object = json::object();
      for (const auto& [key, value] : row) object[key] = value;
      list.push_back(object);
    }
    std::printf("%s\n", duet::json_text(list).c_str());
    return;
  }
  std::vector<std::vector<std::string>> table(1);
  for (const auto& [key, value] : rows.front()) table[0].push_back(key);
  for (const auto& row : rows) {
    table.emplace_back();
    for (const auto& [key, value] : row) table.back().push_back(value);
  }
  std::fputs(duet::format_table(table).c_str(), stdout);
}

std::string note_of(const duet::LayerType& type, const duet::ImplInfo& info) {
  if (const auto own = duet::find_kernels(type.name, info.id)) {
    return own->file().path.string() + ", source " + own->file().hash;
  }
  return info.shared ? "shared: taken by families without one" : "";
}

}  // namespace

void list_what(const std::string& what, bool as_json) {
  std::vector<std::vector<std::pair<std::string, std::string>>> rows;
  if (what == "layers") {
    for (const duet::LayerType* type : duet::layer_types()) {
      rows.push_back({{"layer", std::string(type->name)}, {"summary", std::string(type->summary)}});
    }
    for (const duet::CompositeType& type : duet::composite_types()) {
      rows.push_back({{"layer", type.name}, {"summary", type.summary}});
    }
  } else if (what == "impls") {
    for (const duet::LayerType* type : duet::layer_types()) {
      for (const duet::ImplInfo& info : type->implementations()) {
        rows.push_back({{"layer", std::string(type->name)},
                        {"implementation", std::string(info.id)},
                        {"family", std::string(duet::to_string(duet::family_of(info.id)))},
                        {"note", note_of(*type, info)}});
      }
    }
  } else if (what == "datasets") {
    for (const duet::DatasetType* type : duet::dataset_types()) {
      rows.push_back(
          {{"dataset", std::string(type->name)}, {"summary", std::string(type->summary)}});
    }
  } else if (what == "schedules") {
    for (const duet::ScheduleType* type : duet::schedule_types()) {
      rows.push_back(
          {{"schedule", std::string(type->name)}, {"summary", std::string(type->summary)}});
    }
  } else {
    for (const duet::OptimizerType* type : duet::optimizer_types()) {
      rows.push_back(
          {{"optimizer", std::string(type->name)}, {"summary", std::string(type->summary)}});
    }
  }
  print(rows, as_json);
}
