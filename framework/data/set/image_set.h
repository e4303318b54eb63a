// Many pictures in files, as the images of a data set.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/config.h"
#include "data/format/image.h"
#include "data/set/dataset.h"

namespace duet {

struct PictureRules {
  int64_t channels = 3;
  int64_t height = 0, width = 0;             // what the network takes
  int64_t shorter = 0;                       // `resize: N`: the shorter side becomes N
  std::pair<int64_t, int64_t> resize{0, 0};  // `resize: [height, width]`
  bool skip = false;                         // on_error: skip
  Stream stream = Stream::kNever;            // whether images stay in their files

  bool resizes() const { return shorter > 0 || resize.first > 0; }
};

/// Reads `channels`, `size` (required without a fallback), `resize` and `on_error`; of `stream`, which
/// read_dataset() checks, what it says.
PictureRules read_picture_rules(ConfigReader& reader, std::optional<int64_t> size = {});

/// The picture in the rules' channels, resized and its middle cropped as torchvision's Resize and
/// CenterCrop do of a Pillow image. Throws DataError if it has another size then.
Image fit(const Image& image, const PictureRules& rules);
/// DatasetLoader::fit of a data set with those rules.
std::function<Image(const Image& picture)> fit_by(const PictureRules& rules);

/// Where fit() leaves a picture: resized to height x width pixels, of which the rules' size is
/// cropped from (top, left) on.
struct Placement {
  int64_t height = 0, width = 0;
  int64_t top = 0, left = 0;
};
/// Of a picture of that size. Throws DataError as fit().
Placement placement_of(int64_t height, int64_t width, const PictureRules& rules);

struct LabelledFile {
  std::filesystem::path file;
  int32_t label;
  /// Of the picture, where annotations say it: with another one it cannot be read.
  int64_t height = 0, width = 0;
};

/// Reads JPEG and PNG files on all threads, in their order. Throws DataError naming those that
/// cannot be read (with rules.skip they are left out, as data.left_out and a warning tell) or have
/// another size.
/// With Stream::kFiles, or kAuto where they would take more than half of the memory that is free,
/// all of this is done and the images are not kept: Split::read reads them again.
Split read_labelled_files(const std::vector<LabelledFile>& files, const PictureRules& rules,
                          Dataset& data);

/// Throws DataError with the first of those `reasons` why pictures, of `all`, "cannot be read" (or
/// what else `why` says); or, with on_error: skip, tells that they are left out. Nothing without
/// reasons.
void leave_out(const std::vector<std::string>& reasons, size_t all, const std::string& why,
               bool skip, Dataset& data);

/// True if the name ends as JPEG's and PNG's do, in small letters or capitals; false of hidden files and of what is no
/// picture. Throws DataError if it ends as another format's does, or otherwise than JPEG's is to.
bool is_picture_name(const std::filesystem::path& file);

}  // namespace duet
