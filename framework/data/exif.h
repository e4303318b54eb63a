// The one thing that is read of EXIF data (JEITA CP-3451): how the camera was held.
#pragma once

#include <string_view>

namespace duet {

inline constexpr std::string_view kExifStart = std::string_view("Exif\0\0", 6);

/// The orientation, 1 to 8, in the content of an APP1 segment that begins with kExifStart; 1 where
/// there is none, or where the data are not right.
int exif_orientation(std::string_view segment);

}  // namespace duet
