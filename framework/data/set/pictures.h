// Pictures that a user names, as the images of a network.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/set/dataset.h"

namespace duet {

struct Pictures {
  std::vector<std::string> names;  // the file; of an IDX file with ":N" behind it
  std::vector<uint8_t> images;     // names.size() x channels x height x width, row-major
  std::optional<Image> only;       // where there is one, as its file holds it
};

/// Reads PNG and JPEG files, and IDX files of images (plain or .gz): all images of "FILE", or that
/// of number N (from 0) of "FILE:N". Colours become grey, and grey becomes colours, as `info` has 1
/// or 3 channels. Pictures of another size are resized (image.h) if `resize` is set, or else fitted
/// as the network's data set does its own (DatasetLoader::fit, may be empty). Throws DataError with
/// every file that cannot be taken, and why.
Pictures read_pictures(const std::vector<std::string>& files, const DatasetInfo& info, bool resize,
                       const std::function<Image(const Image&)>& fit = {});

}  // namespace duet
