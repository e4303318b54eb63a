// What compilers made, kept in files, from run to run and for processes at once. Whatever is wrong with
// a file costs a compilation and nothing else.
#pragma once

#include <optional>
#include <string>

namespace duet {

struct CachedCode {
  std::string code, log;
};

/// `key` is all that the code depends on; entries are told apart by all of it.
std::optional<CachedCode> find_cached(const std::string& key);
void keep_cached(const std::string& key, const CachedCode& made);

}  // namespace duet
