#include "user_kernels/headers_hash.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/number_text.h"
#include "data/set/fingerprint.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"core", "device", "kernels", "layers"};
constexpr const char* kPlugin = "user_kernels/plugin.h";

}  // namespace

std::string hash_of_headers(const fs::path& folder) {
  std::vector<fs::path> headers = {folder / kPlugin};
  for (const char* part : kFolders) {
    std::error_code error;
    for (const auto& entry : fs::recursive_directory_iterator(folder / part, error)) {
      const fs::path extension = entry.path().extension();
      if (extension == ".h" || extension == ".cuh") headers.push_back(entry.path());
    }
  }
  std::sort(headers.begin(), headers.end());
  std::string all;
  for (const fs::path& header : headers) {
    std::ifstream in(header, std::ios::binary);
    all += header.lexically_relative(folder).generic_string() + '\0';
    all.append(std::istreambuf_iterator<char>(in), {});
  }
  return printed("%016llx", static_cast<unsigned long long>(hash_of(all.data(), all.size())));
}

}  // namespace duet
