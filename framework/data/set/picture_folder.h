// Folders of pictures: where a data set has them, and what is in them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/config.h"
#include "data/set/validation_split.h"

namespace duet {

/// Where a data set of one's own pictures is.
struct PictureFolders {
  std::string folder, train;              // `train` lies in `folder`
  std::optional<std::string> validation;  // likewise; without it `split` says what is held out
  ValidationSplit split;
};
/// Reads `folder` (by default `name`), `train`, `validation` and `validation_split`. `kind` says for
/// messages what `train` and `validation` name, where those are files.
PictureFolders read_picture_folders(ConfigReader& reader, const std::string& name,
                                    const std::string& train = "train",
                                    const std::string& kind = "folder");

struct FoundFolders {
  std::filesystem::path folder, train;
  std::optional<std::filesystem::path> validation;
};
/// Throws DataError as data_folder() (dataset.h).
FoundFolders find_folders(const PictureFolders& folders, const std::filesystem::path& data_dir);

/// The names of the folders in `folder`, in their order; hidden ones are passed by. Throws
/// DataError if it cannot be read.
std::vector<std::string> folders_in(const std::filesystem::path& folder);

/// All JPEG and PNG files: those of the folder in the order of their names, then those of the
/// folders in it, likewise. Hidden files and folders, and files that are no pictures, are passed
/// by. Throws DataError if a folder cannot be read or lies too deep (a link that goes round in a
/// circle), and as is_picture_name() (image_set.h).
std::vector<std::filesystem::path> pictures_below(const std::filesystem::path& folder);

}  // namespace duet
