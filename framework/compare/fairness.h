// What else the arms of a comparison do differently than their times tell.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace duet {

/// Sentences, from the networks of results["arms"]: which blocks one arm computes fused and another
/// by several calls or layer by layer, and which interfaces of the libraries an arm calls. Empty
/// where the arms do not differ so, or results do not tell.
std::vector<std::string> fairness_lines(const nlohmann::json& results);

/// Libraries that are older than those the program was compiled against, from
/// results["environment"]; also of results of bench.
std::vector<std::string> version_lines(const nlohmann::json& results);

}  // namespace duet
