#include "data/set/fingerprint.h"

#include <cstring>

#include "core/number_text.h"

namespace duet {
namespace {

// FNV-1a by words of 8 bytes, with the upper half mixed into the lower.
class Hash {
 public:
  void add(const void* data, size_t bytes) {
    const char* at = static_cast<const char*>(data);
    for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, at, sizeof word);
      mix(word);
    }
    uint64_t rest = bytes;
    if (bytes > 0) std::memcpy(&rest, at, bytes);  // no data may be at nullptr
    mix(rest);
  }
  uint64_t value() const { return value_; }

 private:
  void mix(uint64_t word) {
    value_ = (value_ ^ word) * 0x100000001b3;
    value_ ^= value_ >> 32;
  }

  uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

uint64_t hash_of(const void* data, size_t bytes) {
  Hash hash;
  hash.add(data, bytes);
  return hash.value();
}

std::string fingerprint(const Dataset& dataset) {
  Hash hash;
  for (const Split* split : {&dataset.train, &dataset.validation}) {
    const std::vector<int32_t> none(split->labels.empty() ? split->count : 0);  // as if all were 0
    const std::vector<int32_t>& labels = split->labels.empty() ? none : split->labels;
    hash.add(labels.data(), labels.size() * sizeof labels[0]);
    if (split->facts.empty()) hash.add(split->images.data(), split->images.size());
    for (const ImageFacts& facts : split->facts) hash.add(&facts.hash, sizeof facts.hash);
    if (dataset.numbers) hash.add(split->numbers.data(), split->numbers.size() * sizeof(float));
    for (const auto& record : split->records)
      hash.add(record.data(), record.size() * sizeof record[0]);
  }
  return printed("%016llx", static_cast<unsigned long long>(hash.value()));
}

}  // namespace duet
