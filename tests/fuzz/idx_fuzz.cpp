// IDX files. The first letter says how the rest is to be read: i, images; l, labels; z, images out
// of a gzip file; p, images that are packed here, in two members.
#include "data/format/idx.h"

#include <zlib.h>

#include <cstdlib>
#include <string>

#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/input_path.h"

namespace {

std::string packed(std::string_view content) {
  std::string bytes(compressBound(content.size()) + 64, '\0');
  z_stream z{};
  deflateInit2(&z, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(bytes.data());
  z.avail_out = static_cast<uInt>(bytes.size());
  deflate(&z, Z_FINISH);
  bytes.resize(z.total_out);
  deflateEnd(&z);
  return bytes;
}

}  // namespace

DUET_FUZZ_TARGET(idx) {
  if (input.empty()) return;
  const char how = input[0];
  const std::string_view content = input.substr(1);
  const bool plain = how == 'i' || how == 'l';
  const size_t half = content.size() / 2;
  const std::string bytes = how == 'p'
                                ? packed(content.substr(0, half)) + packed(content.substr(half))
                                : std::string(content);
  try {
    const duet::IdxArray array =
        duet::read_idx(duet::input_path(plain ? "input" : "input.gz", bytes), how == 'l' ? 1 : 3);
    size_t expected = 1;
    for (const int64_t dim : array.dims) expected *= static_cast<size_t>(dim);
    if (array.bytes.size() != expected) std::abort();
  } catch (const duet::Error&) {
  }
}
