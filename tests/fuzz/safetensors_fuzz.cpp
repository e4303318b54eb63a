// safetensors files. The first letter says what follows: r, the file; j, its header, a zero byte
// and the data; the length of the header is put before it here.
#include "train/checkpoint/safetensors.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/input_path.h"

DUET_FUZZ_TARGET(safetensors) {
  if (input.empty()) return;
  std::string bytes(input.substr(1));
  if (input[0] == 'j') {
    const size_t length = std::min(bytes.find('\0'), bytes.size());
    if (length < bytes.size()) bytes.erase(length, 1);
    std::string prefix(8, '\0');
    for (size_t i = 0; i < 8; ++i) prefix[i] = static_cast<char>(length >> (8 * i));
    bytes.insert(0, prefix);
  }
  try {
    const duet::safetensors::File file =
        duet::safetensors::read(duet::input_path("input.safetensors", bytes));
    unsigned sum = 0;  // reads every byte
    for (const duet::safetensors::Entry& entry : file.entries()) {
      if (file.find(entry.name) != &entry) std::abort();
      const auto* data = static_cast<const uint8_t*>(entry.data);
      for (size_t i = 0; i < entry.bytes(); ++i) sum += data[i];
    }
    [[maybe_unused]] static volatile unsigned kept;
    kept = sum;
  } catch (const duet::Error&) {
  }
}
