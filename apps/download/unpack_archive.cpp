#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <memory>
#include <system_error>

#include "core/error.h"
#include "core/interrupt.h"
#include "remote_file.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// A folder that is removed with what is left in it.
struct Scratch {
  fs::path path;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

std::string why(archive* of) {
  const char* text = archive_error_string(of);
  return text ? text : "unknown";
}

}  // namespace

void unpack(const fs::path& file, const fs::path& folder) {
  const Scratch scratch{folder / ".unpacking"};
  std::error_code failed;
  fs::remove_all(scratch.path, failed);
  fs::create_directories(scratch.path, failed);
  if (failed) throw RunError(scratch.path.string() + ": cannot be made: " + failed.message());
  const std::unique_ptr<archive, int (*)(archive*)> from(archive_read_new(), archive_read_free);
  const std::unique_ptr<archive, int (*)(archive*)> to(archive_write_disk_new(),
                                                       archive_write_free);
  archive_read_support_format_tar(from.get());
  archive_read_support_format_zip(from.get());
  archive_read_support_filter_gzip(from.get());
  const auto check = [&](int result, archive* of, bool reads) {
    if (result >= ARCHIVE_WARN) return;
    const std::string message = file.string() + ": " + why(of);
    if (reads) throw DataError(message + "; remove it and download again");
    throw RunError(message + "; make room and download again");
  };
  check(archive_read_open_filename(from.get(), file.c_str(), 1 << 20), from.get(), true);
  archive_entry* entry = nullptr;
  int result;
  while ((result = archive_read_next_header(from.get(), &entry)) != ARCHIVE_EOF) {
    check(result, from.get(), true);
    InterruptGuard::check();
    const fs::path name = archive_entry_pathname(entry);
    const auto type = archive_entry_filetype(entry);
    const bool leaves = std::find(name.begin(), name.end(), "..") != name.end();
    if (name.is_absolute() || leaves || archive_entry_hardlink(entry) ||
        (type != AE_IFREG && type != AE_IFDIR)) {
      throw DataError(file.string() + ": '" + name.string() + "' is no file within it");
    }
    archive_entry_set_pathname(entry, (scratch.path / name).c_str());
    check(archive_write_header(to.get(), entry), to.get(), false);
    const void* bytes = nullptr;
    size_t count = 0;
    la_int64_t offset = 0;
    while ((result = archive_read_data_block(from.get(), &bytes, &count, &offset)) != ARCHIVE_EOF) {
      check(result, from.get(), true);
      if (archive_write_data_block(to.get(), bytes, count, offset) < 0) {
        check(ARCHIVE_FATAL, to.get(), false);
      }
    }
    check(archive_write_finish_entry(to.get()), to.get(), false);
  }
  for (const fs::directory_entry& top : fs::directory_iterator(scratch.path)) {
    const fs::path place = folder / top.path().filename();
    if (fs::exists(place)) throw DataError(place.string() + ": is in the way; move it and go on");
    fs::rename(top.path(), place);
  }
}

}  // namespace duet
