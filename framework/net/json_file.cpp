#include "net/json_file.h"

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/input_file.h"
#include "core/printable.h"

namespace duet {

nlohmann::json parse_json(const std::string& text) {
  check_json_bounds(text);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw DataError("not JSON, or cut short: " + printable(error.what()));
  }
}

nlohmann::json object_of_line(const std::string& line) {
  try {
    nlohmann::json object = parse_json(line);
    if (object.is_object()) return object;
  } catch (const DataError&) {
  }
  return {};
}

}  // namespace duet
