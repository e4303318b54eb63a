// JSON text of files that others may have written.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace duet {

/// The value of JSON text. Throws DataError where it is none, or breaks check_json_bounds()
/// (core/input_file.h).
nlohmann::json parse_json(const std::string& text);
/// The object in a line of a file that grows line by line; null of any other line, as one that was
/// cut short.
nlohmann::json object_of_line(const std::string& line);

}  // namespace duet
