// Reading results of compare and bench: whatever was not measured is absent or null, and readers
// show that instead of failing.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

/// The member of that name, or null where `value` is no object or has none.
const nlohmann::json& member(const nlohmann::json& value, std::string_view key);
/// The element at that place, or null where `value` is no array or too short, or there is no place.
const nlohmann::json& element(const nlohmann::json& value, std::optional<size_t> index);
/// `value` if it is an array, else an empty one.
const nlohmann::json& list(const nlohmann::json& value);

std::optional<double> number(const nlohmann::json& value);
std::optional<double> number_at(const nlohmann::json& value, const std::string& key);
/// A place in a list, a count or a size: nothing where that is no whole number from 0 to 1e15.
std::optional<size_t> count_at(const nlohmann::json& value, const std::string& key);
/// The text, or "" where there is none.
std::string text_at(const nlohmann::json& value, const std::string& key);
bool is_true(const nlohmann::json& value, const std::string& key);
/// The number as `format` writes it, or "-" where there is none.
std::string shown(std::optional<double> value, std::string (*format)(double));
/// Of the ratio of arms of the same code how far their times lie about their median, "0.98
/// to 1.03"; of any other ratio "".
std::string spread_of_same_code(const nlohmann::json& ratio);
/// "custom": the name of arm `index`, or "arm 2" where it has none.
std::string arm_name(const nlohmann::json& results, size_t index);
/// The name of the arm whose place is at `key`, or "-" where there is no place.
std::string arm_of(const nlohmann::json& results, const nlohmann::json& value,
                   const std::string& key = "arm");
/// That the measurement did not come to its end, and why; empty if it did.
std::string stopped_text(const nlohmann::json& results);
/// What --quick changed and left out; empty if that is not told.
std::string left_out_text(const nlohmann::json& results);
/// The number of arms; where none is named, of those in the rows of layers. Files have them all.
size_t arm_count(const nlohmann::json& results);

}  // namespace duet
