#include "core/error.h"
#include "remote_file.h"

namespace duet {
namespace {

[[noreturn]] void refuse() {
  throw UnsupportedError(
      "this build cannot download: libcurl, OpenSSL or libarchive was not found when it was "
      "configured; install them (Debian: libcurl4-openssl-dev libssl-dev libarchive-dev) and run "
      "cmake again");
}

}  // namespace

std::string sha256_of(const std::filesystem::path&) { refuse(); }
void fetch(const PublishedFile&, const std::vector<std::string>&, const std::filesystem::path&,
           const DownloadOptions&) {
  refuse();
}
void unpack(const std::filesystem::path&, const std::filesystem::path&) { refuse(); }

}  // namespace duet
