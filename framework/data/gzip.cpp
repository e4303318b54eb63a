#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "core/error.h"

namespace duet {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;  // +16: zlib reads and checks gzip's header and trailer
constexpr size_t kChunk = size_t{1} << 20;

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
};

}  // namespace

std::vector<uint8_t> read_file(const std::filesystem::path& file) {
  const auto fail = [&](const char* what) {
    throw DataError(file.string() + ": " + what + ": " + std::strerror(errno));
  };
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(std::fopen(file.c_str(), "rb"),
                                                               std::fclose);
  if (!stream) fail("cannot open");
  std::vector<uint8_t> bytes;
  size_t size = 0;
  for (;;) {
    bytes.resize(size + kChunk);
    const size_t got = std::fread(bytes.data() + size, 1, kChunk, stream.get());
    size += got;
    if (got < kChunk) break;
  }
  if (std::ferror(stream.get())) fail("cannot read");
  bytes.resize(size);
  return bytes;
}

std::vector<uint8_t> gunzip(const std::vector<uint8_t>& packed, const std::filesystem::path& file) {
  size_t offset = 0;  // of the next packed byte
  const auto fail = [&](const std::string& what) {
    throw DataError(file.string() + ": offset " + std::to_string(offset) + ": " + what);
  };
  Inflater inflater;
  z_stream& z = inflater.stream;
  std::vector<uint8_t> bytes;
  size_t size = 0;
  do {
    if (packed.size() - offset < 2 || packed[offset] != 0x1f || packed[offset + 1] != 0x8b) {
      fail(offset == 0 ? "expected gzip data (1f 8b), found something else"
                       : "expected the end of the file, found " +
                             std::to_string(packed.size() - offset) + " bytes after the gzip data");
    }
    const size_t start = offset;
    for (int status = Z_OK; status != Z_STREAM_END;) {
      // zlib counts in 32 bits: feed it at most kChunk at a time.
      const size_t give = std::min(packed.size() - offset, kChunk);
      z.next_in = const_cast<Bytef*>(packed.data() + offset);
      z.avail_in = static_cast<uInt>(give);
      if (bytes.size() < size + kChunk) bytes.resize(std::max(bytes.size() * 2, size + kChunk));
      z.next_out = bytes.data() + size;
      z.avail_out = kChunk;
      status = inflate(&z, Z_NO_FLUSH);
      offset += give - z.avail_in;
      size += kChunk - z.avail_out;
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      if (status == Z_BUF_ERROR) {  // no progress: there is room for output, so input is what lacks
        fail("the gzip data is truncated: the file ends inside the member that began at offset " +
             std::to_string(start));
      }
      if (status != Z_OK && status != Z_STREAM_END) {
        fail(std::string("the gzip data is corrupt: ") + (z.msg ? z.msg : zError(status)));
      }
    }
    inflateReset(&z);
  } while (offset < packed.size());
  bytes.resize(size);
  return bytes;
}

}  // namespace duet
