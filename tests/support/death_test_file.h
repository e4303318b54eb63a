// A file for results that a death test's process, which is a new one, and the test that starts it
// both know.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace duet {

/// REQUIRES: called before the death test.
inline std::string death_test_file() {
  const std::string name = "duet-death-" + std::to_string(getpid()) + ".json";
  setenv("DUET_TEST_RESULTS", (std::filesystem::temp_directory_path() / name).c_str(), 0);
  return getenv("DUET_TEST_RESULTS");
}

/// Its content; null if there is none. Removes it.
inline nlohmann::json take_death_test_file() {
  const std::string path = death_test_file();
  std::ifstream file(path);
  if (!file) return {};
  nlohmann::json results = nlohmann::json::parse(file);
  std::filesystem::remove(path);
  return results;
}

}  // namespace duet
