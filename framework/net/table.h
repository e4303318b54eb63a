// The resolved network as people and programs read it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "net/net.h"
#include "net/resolve.h"

namespace duet {

/// Rows under a header, columns aligned, two blanks between; numbers are for the caller to format.
std::string format_table(const std::vector<std::vector<std::string>>& rows);
/// JSON as text, on one line or indented. What is not UTF-8 (names of files need not be) is
/// replaced.
std::string json_text(const nlohmann::json& value, int indent = -1);
/// "12.3 MiB"; KiB below a MiB, GiB from 10 GiB
std::string format_bytes(size_t bytes);
/// "896,522"
std::string format_count(int64_t count);

/// Layer, type, inputs where the network is no chain, output, parameters and the implementation of
/// each pass; with a Net also workspace, the library's algorithm and memory. A row a layer, more
/// where passes differ.
std::string network_table(const std::vector<ResolvedLayer>& layers, const Net* net);
nlohmann::json network_json(const std::vector<ResolvedLayer>& layers, const Net* net);
/// Values that are trained.
int64_t parameter_count(const std::vector<ResolvedLayer>& layers);
/// Those of them that are frozen.
int64_t frozen_parameter_count(std::vector<ResolvedLayer> layers);

}  // namespace duet
