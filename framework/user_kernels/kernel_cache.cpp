#include "user_kernels/kernel_cache.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/input_file.h"
#include "core/number_text.h"
#include "core/write_file.h"
#include "data/set/fingerprint.h"
#include "device/tuning_cache.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostCachedBytes = 256 << 20;
constexpr std::string_view kMagic = "duet kernels 1\n";

fs::path path_of(const std::string& key) {
  const fs::path folder = TuningCache::path_of("kernels");
  if (folder.empty()) return {};
  return folder / printed("%llx", static_cast<unsigned long long>(hash_of(key.data(), key.size())));
}

// Each text behind its length.
std::string packed(const std::vector<std::string_view>& texts) {
  std::string all;
  for (const std::string_view text : texts) {
    const uint64_t size = text.size();
    all.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
  }
  return all;
}

std::string checksum(std::string_view text) {
  const uint64_t hash = hash_of(text.data(), text.size());
  return {reinterpret_cast<const char*>(&hash), sizeof hash};
}

// The texts of packed(); none where they do not fill `all`.
std::vector<std::string_view> unpacked(std::string_view all) {
  std::vector<std::string_view> texts;
  while (!all.empty()) {
    uint64_t size = 0;
    if (all.size() < sizeof size) return {};
    std::memcpy(&size, all.data(), sizeof size);
    all.remove_prefix(sizeof size);
    if (size > all.size()) return {};
    texts.push_back(all.substr(0, size));
    all.remove_prefix(size);
  }
  return texts;
}

}  // namespace

std::optional<CompiledCode> find_cached(const std::string& key) {
  const fs::path path = path_of(key);
  std::error_code error;
  if (path.empty() || !fs::exists(path, error)) return {};
  try {
    const std::string all = read_input_file(path, kMostCachedBytes);
    const size_t head = kMagic.size() + sizeof(uint64_t);
    if (!all.starts_with(kMagic) || all.size() < head) return {};
    const std::string_view body = std::string_view(all).substr(head);
    if (all.substr(kMagic.size(), sizeof(uint64_t)) != checksum(body)) return {};
    const auto texts = unpacked(body);
    if (texts.size() != 3 || texts[0] != key) return {};
    return CompiledCode{std::string(texts[1]), std::string(texts[2])};
  } catch (const Error&) {
    return {};
  }
}

void keep_cached(const std::string& key, const CompiledCode& made) {
  const fs::path path = path_of(key);
  if (path.empty()) return;
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const std::string body = packed({key, made.code, made.log});
  try {
    replace_file(path, {kMagic, checksum(body), body});
  } catch (const RunError&) {
    // The next process compiles.
  }
}

}  // namespace duet
