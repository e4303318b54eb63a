// Annotations in COCO's JSON form.
#pragma once

#include <filesystem>

#include "data/set/boxed_pictures.h"

namespace duet {

/// Reads `images`, `annotations` and `categories` of a file, plain or .gz; all else is passed by.
/// Categories are numbered from 0 in the order of their ids, whatever gaps these have. Boxes of a
/// crowd are counted and left out. An annotation without four numbers as its box is a mistake of
/// its picture. Throws DataError with all other mistakes, a line each.
Annotations read_coco(const std::filesystem::path& file);

}  // namespace duet
