// The pictures in a folder and in the folders in it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace duet {

/// The names of the folders in `folder`, in their order; hidden ones are passed by. Throws
/// DataError if it cannot be read.
std::vector<std::string> folders_in(const std::filesystem::path& folder);

/// All JPEG and PNG files: those of the folder in the order of their names, then those of the
/// folders in it, likewise. Hidden files and folders, and files that are no pictures, are passed
/// by. Throws DataError if a folder cannot be read or lies too deep (a link that goes round in a
/// circle), and as is_picture_name() (image_set.h).
std::vector<std::filesystem::path> pictures_below(const std::filesystem::path& folder);

}  // namespace duet
