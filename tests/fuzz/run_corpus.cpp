#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz_target.h"
#include "test_paths.h"

namespace duet {

void run_corpus(const char* name, void (*target)(std::string_view input)) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  const fs::path folder = fs::path(DUET_SOURCE_DIR) / "tests/fuzz/corpus" / name;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  EXPECT_FALSE(files.empty()) << folder;
  for (const fs::path& file : files) {
    SCOPED_TRACE(file.string());
    std::ifstream stream(file, std::ios::binary);
    const std::string input{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_TRUE(stream.good() || stream.eof());
    EXPECT_NO_THROW(target(input));
  }
}

}  // namespace duet
