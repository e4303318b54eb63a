#include "data/set/pictures.h"

#include <charconv>
#include <optional>

#include "core/error.h"
#include "data/format/idx.h"
#include "data/format/image_file.h"
#include "data/format/resample.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// "FILE" or "FILE:N", where there is no file of the whole name.
struct Argument {
  fs::path file;
  std::optional<int64_t> number;
};

Argument read_argument(const std::string& text) {
  const size_t colon = text.rfind(':');
  std::error_code ignored;
  if (colon == std::string::npos || fs::exists(text, ignored)) return {text, {}};
  int64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data() + colon + 1, end, number);
  if (error != std::errc() || parsed != end || number < 0) return {text, {}};
  return {text.substr(0, colon), number};
}

class PicturesReader {
 public:
  PicturesReader(const DatasetInfo& info, bool resize,
                 const std::function<Image(const Image&)>& fit)
      : info_(info), resize_(resize), fit_(fit) {
    if (info.numbers) {
      throw DataError("the network takes the numbers of " + info.name + ", not pictures");
    }
    if (info.channels == 1 || info.channels == 3) return;
    throw DataError("the network takes images of " + std::to_string(info.channels) +
                    " channels; pictures have 1 (grey) or 3 (colour)");
  }

  void add(const std::string& text) {
    const Argument argument = read_argument(text);
    std::error_code ignored;
    if (fs::is_directory(argument.file, ignored)) {
      throw DataError(argument.file.string() + ": is a folder; name the pictures in it");
    }
    const FileKind kind = kind_of_file(argument.file);
    if (kind == FileKind::kIdx || kind == FileKind::kGzip) return add_idx(argument);
    if (kind == FileKind::kOther) {
      throw DataError(argument.file.string() +
                      ": is no picture: expected PNG, JPEG, or IDX images");
    }
    if (argument.number) {
      throw DataError(argument.file.string() + ": is not an IDX file; only those have a number (:" +
                      std::to_string(*argument.number) + ")");
    }
    add_image(text, read_image_file(argument.file));
  }

  Pictures pictures;

 private:
  void add_idx(const Argument& argument) {
    const auto fail = [&](const std::string& what) {
      throw DataError(argument.file.string() + ": " + what);
    };
    const IdxArray array = read_idx(argument.file, 3, [&](const std::vector<int64_t>& dims) {
      if (dims[0] == 0) fail("holds no images");
      if (argument.number && *argument.number >= dims[0]) {
        fail("has no image " + std::to_string(*argument.number) + "; its " +
             std::to_string(dims[0]) + " images are numbered from 0");
      }
      check_size(argument.file.string(), dims[1], dims[2]);
    });
    const int64_t first = argument.number.value_or(0);
    const int64_t end = argument.number ? first + 1 : array.dims[0];
    const int64_t bytes = array.dims[1] * array.dims[2];
    for (int64_t i = first; i < end; ++i) {
      const auto start = array.bytes.begin() + i * bytes;
      add_image(argument.file.string() + ":" + std::to_string(i),
                {array.dims[1], array.dims[2], 1, {start, start + bytes}});
    }
  }

  void add_image(const std::string& name, const Image& image) {
    check_size(name, image.height, image.width);
    const Image fitting = fitted(name, image);
    const std::vector<uint8_t> planes = planes_of(fitting);
    pictures.images.insert(pictures.images.end(), planes.begin(), planes.end());
    pictures.names.push_back(name);
    pictures.only.reset();
    if (pictures.names.size() == 1) pictures.only = image;
  }

  bool fits_by_rule() const { return fit_ && !resize_; }
  Image fitted(const std::string& name, const Image& image) const {
    try {
      if (fits_by_rule()) return fit_(image);
    } catch (const DataError& error) {
      throw DataError(name + ": " + error.what());
    }
    const Image channels = info_.channels == 1 ? to_grey(image) : to_rgb(image);
    return resample(channels, info_.height, info_.width, ResampleFilter::kBilinear);
  }

  void check_size(const std::string& name, int64_t height, int64_t width) const {
    if (height == info_.height && width == info_.width) return;
    if (fits_by_rule() && height > 0 && width > 0) return;
    const std::string found =
        name + ": is " + size_text(height, width) + " pixels (width x height)";
    if (!resize_) {
      throw DataError(found + ", and the network takes " + size_text(info_.height, info_.width) +
                      "; --resize scales it to that");
    }
    try {
      check_image_size(static_cast<uint64_t>(height), static_cast<uint64_t>(width));
      check_resized(height, width, info_.height, info_.width);
    } catch (const DataError& error) {
      throw DataError(name + ": " + error.what());
    }
  }

  const DatasetInfo& info_;
  const bool resize_;
  const std::function<Image(const Image&)>& fit_;
};

}  // namespace

Pictures read_pictures(const std::vector<std::string>& files, const DatasetInfo& info, bool resize,
                       const std::function<Image(const Image&)>& fit) {
  PicturesReader reader(info, resize, fit);
  std::vector<std::string> mistakes;
  for (const std::string& file : files) {
    try {
      reader.add(file);
    } catch (const DataError& error) {
      mistakes.emplace_back(error.what());
    }
  }
  if (!mistakes.empty()) throw DataError(join(mistakes, "\n"));
  return std::move(reader.pictures);
}

}  // namespace duet
