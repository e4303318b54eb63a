#include "data/set/dataset_file.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "core/error.h"

namespace duet {
namespace {

constexpr int kGzipWindow = 16 + MAX_WBITS;  // +16: zlib reads and checks gzip's header and trailer
constexpr size_t kPackedChunk = size_t{1} << 18;  // of packed data; zlib counts in 32 bits

}  // namespace

class DatasetFile::Inflater {
 public:
  Inflater(const std::filesystem::path& path, const InputFile& file)
      : path_(path), file_(file), chunk_(kPackedChunk) {
    if (inflateInit2(&z_, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&z_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  size_t read(uint8_t* to, size_t bytes) {
    size_t done = 0;
    while (done < bytes && (in_member_ || begin_member())) {
      done += inflate_some(to + done, std::min<size_t>(bytes - done, UINT32_MAX));
    }
    return done;
  }

 private:
  // Of the next packed byte.
  uint64_t offset() const { return read_ - z_.avail_in; }

  [[noreturn]] void fail(const std::string& what) const {
    throw DataError(path_.string() + ": offset " + std::to_string(offset()) + ": " + what);
  }

  // Makes sure that there are at least `wanted` packed bytes to take, unless the file ends.
  void refill(size_t wanted) {
    if (z_.avail_in >= wanted) return;
    std::copy_n(z_.next_in, z_.avail_in, chunk_.data());
    const size_t got = file_.read(read_, chunk_.data() + z_.avail_in, kPackedChunk - z_.avail_in);
    z_.next_in = chunk_.data();
    z_.avail_in += static_cast<uInt>(got);
    read_ += got;
  }

  // False at the end of the file.
  bool begin_member() {
    refill(2);
    if (z_.avail_in == 0 && any_) return false;
    if (z_.avail_in < 2 || z_.next_in[0] != 0x1f || z_.next_in[1] != 0x8b) {
      fail(any_ ? "expected the end of the file, found " +
                      std::to_string(file_.size() - std::min(offset(), file_.size())) +
                      " bytes after the gzip data"
                : "expected gzip data (1f 8b), found something else");
    }
    member_ = offset();
    any_ = in_member_ = true;
    return true;
  }

  size_t inflate_some(uint8_t* to, size_t bytes) {
    refill(1);
    z_.next_out = to;
    z_.avail_out = static_cast<uInt>(bytes);
    const int status = inflate(&z_, Z_NO_FLUSH);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    if (status == Z_BUF_ERROR) {  // no progress: there is room for output, so input is what lacks
      fail("the gzip data is truncated: the file ends inside the member that began at offset " +
           std::to_string(member_));
    }
    if (status != Z_OK && status != Z_STREAM_END) {
      fail(std::string("the gzip data is corrupt: ") + (z_.msg ? z_.msg : zError(status)));
    }
    if (status == Z_STREAM_END) {
      in_member_ = false;
      inflateReset(&z_);
    }
    return bytes - z_.avail_out;
  }

  const std::filesystem::path path_;
  const InputFile& file_;
  std::vector<uint8_t> chunk_;
  z_stream z_{};
  uint64_t read_ = 0;    // packed bytes, those still to take among them
  uint64_t member_ = 0;  // where the last member began
  bool any_ = false, in_member_ = false;
};

DatasetFile::DatasetFile(const std::filesystem::path& path) : file_(path) {
  if (path.extension() == ".gz") inflater_ = std::make_unique<Inflater>(path, file_);
}

DatasetFile::~DatasetFile() = default;

size_t DatasetFile::read(void* to, size_t bytes) {
  if (inflater_) return inflater_->read(static_cast<uint8_t*>(to), bytes);
  const size_t got = file_.read(offset_, to, bytes);
  offset_ += got;
  return got;
}

std::optional<uint64_t> DatasetFile::size() const {
  if (inflater_) return {};
  return file_.size();
}

std::filesystem::path plain_or_packed(const std::filesystem::path& file) {
  std::error_code ignored;
  const std::filesystem::path packed = file.string() + ".gz";
  return !std::filesystem::exists(file, ignored) && std::filesystem::exists(packed, ignored)
             ? packed
             : file;
}

}  // namespace duet
