#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "core/descriptor.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "remote_file.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 5;  // of one mirror that stops in the middle

// What a transfer that curl runs needs and leaves.
struct Transfer {
  const PublishedFile& file;
  const DownloadOptions& options;
  CURL* curl;
  Descriptor to;
  int64_t there;              // bytes of the part
  bool begun = false;         // bytes have come
  std::string write_error{};  // why they could not be kept
  bool too_long = false;
  int64_t other_size =
      -1;  // of the whole file, as the server announces it: not the published one's
};

size_t keep(const char* bytes, size_t, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  if (!transfer.begun) {
    transfer.begun = true;
    long status = 0;
    curl_easy_getinfo(transfer.curl, CURLINFO_RESPONSE_CODE, &status);
    curl_off_t announced = -1;
    curl_easy_getinfo(transfer.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
    const int64_t size = (status == 206 ? transfer.there : 0) + announced;
    if (announced >= 0 && size != transfer.file.bytes) {
      transfer.other_size = size;
      return 0;
    }
    if (status != 206 && transfer.there > 0) {  // the server sends all of it again
      if (ftruncate(transfer.to.get(), 0) != 0 || lseek(transfer.to.get(), 0, SEEK_SET) != 0) {
        transfer.write_error = std::strerror(errno);
        return 0;
      }
      transfer.there = 0;
    }
  }
  if (transfer.there + static_cast<int64_t>(count) > transfer.file.bytes) {
    transfer.too_long = true;
    return 0;
  }
  if (!write_all(transfer.to, {bytes, count})) {
    transfer.write_error = std::strerror(errno);
    return 0;
  }
  transfer.there += static_cast<int64_t>(count);
  return count;
}

int tell(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<Transfer*>(user);
  if (transfer.options.progress) {
    transfer.options.progress(std::string(transfer.file.name), transfer.there, transfer.file.bytes);
  }
  return InterruptGuard::requested() ? 1 : 0;
}

std::string human(int64_t bytes) { return std::to_string(bytes) + " bytes"; }

int64_t size_of(const fs::path& file) {
  struct stat status {};
  return stat(file.c_str(), &status) == 0 ? status.st_size : -1;
}

// Goes on with the part from `url`. Returns why it is not whole now; empty if it is.
std::string transfer_from(const std::string& url, const PublishedFile& file, const fs::path& part,
                          const DownloadOptions& options) {
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  if (!curl) throw RunError("libcurl does not start");
  Transfer transfer{file, options, curl.get(), open_own_file(part), 0};
  transfer.there = lseek(transfer.to.get(), 0, SEEK_END);
  char reason[CURL_ERROR_SIZE] = "";
  const auto set = [&](CURLoption option, auto value) {
    curl_easy_setopt(curl.get(), option, value);
  };
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_CONNECTTIMEOUT, 20L);
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // nothing for 30 s ends it
  set(CURLOPT_LOW_SPEED_TIME, 30L);
  // Not CURLOPT_RESUME_FROM, which gives up where a server knows no ranges.
  const std::string range = std::to_string(transfer.there) + "-";
  if (transfer.there > 0) set(CURLOPT_RANGE, range.c_str());
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_WRITEFUNCTION, keep);
  set(CURLOPT_WRITEDATA, &transfer);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, tell);
  set(CURLOPT_XFERINFODATA, &transfer);
  const CURLcode result = curl_easy_perform(curl.get());
  if (!transfer.to.close() && transfer.write_error.empty()) {
    transfer.write_error = std::strerror(errno);
  }
  if (InterruptGuard::requested()) {
    throw InterruptedError("interrupted; " + part.string() + " is gone on with the next time");
  }
  if (!transfer.write_error.empty()) {
    throw RunError(part.string() + ": " + transfer.write_error + "; make room for " +
                   human(file.bytes - size_of(part)) + " more and download again: it goes on");
  }
  if (transfer.other_size >= 0) {
    return "has another file than the published, of " + human(transfer.other_size) + " and not " +
           human(file.bytes);
  }
  if (transfer.too_long) {
    fs::remove(part);
    return "sends more than the " + human(file.bytes) + " of the published file";
  }
  if (transfer.there == file.bytes) return {};
  if (result == CURLE_OK)
    return "ended after " + human(transfer.there) + " of " + human(file.bytes);
  return *reason ? reason : curl_easy_strerror(result);
}

}  // namespace

std::string sha256_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> hash(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  if (!in || !hash || EVP_DigestInit_ex(hash.get(), EVP_sha256(), nullptr) != 1) {
    throw RunError(file.string() + ": cannot be read");
  }
  std::vector<char> buffer(size_t{1} << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0) {
    EVP_DigestUpdate(hash.get(), buffer.data(), static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) throw RunError(file.string() + ": cannot be read");
  std::array<unsigned char, 32> sum{};
  EVP_DigestFinal_ex(hash.get(), sum.data(), nullptr);
  std::string text;
  for (const unsigned char byte : sum) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

void fetch(const PublishedFile& file, const std::vector<std::string>& urls, const fs::path& path,
           const DownloadOptions& options) {
  if (size_of(path) >= 0) {
    if (size_of(path) == file.bytes && sha256_of(path) == file.sha256) return;
    throw DataError(path.string() +
                    ": is not the published file (its SHA-256 is another); move it "
                    "away and download again");
  }
  fs::path part = path;
  part += ".part";
  open_own_file(part);  // throws where it is none, before anything is asked of it
  std::vector<std::string> reasons;
  for (const std::string& url : urls) {
    std::string reason;
    for (int tried = 0; tried < kTries; ++tried) {
      const int64_t before = size_of(part);
      if (before > file.bytes) fs::remove(part);
      if (before != file.bytes) reason = transfer_from(url, file, part, options);
      // Of the part of a mirror that is another file, nothing is gone on with.
      if (size_of(part) == file.bytes) {
        if (sha256_of(part) == file.sha256) {
          fs::rename(part, path);
          return;
        }
        fs::remove(part);
        reason =
            "sends another file than the published: its SHA-256 is not " + std::string(file.sha256);
        if (before <= 0) break;  // else the part may have been the wrong one: once more
        continue;
      }
      if (size_of(part) <= std::max<int64_t>(before, 0)) break;  // no progress: another mirror
    }
    reasons.push_back(url + ": " + reason);
  }
  if (size_of(part) == 0) fs::remove(part);
  throw DataError(std::string(file.name) + " could not be downloaded:\n  " + join(reasons, "\n  ") +
                  (size_of(part) > 0 ? "\nWhat has come is kept; download again to go on." : "") +
                  "\nCheck the network, or name a folder that has it with --mirror URL.");
}

}  // namespace duet
