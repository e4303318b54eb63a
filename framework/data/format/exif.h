// The one thing that is read of EXIF data (JEITA CP-3451): how the camera was held.
#pragma once

#include <string_view>

namespace duet {

/// What the content of an APP1 segment with EXIF data begins with.
inline constexpr std::string_view kExifStart = std::string_view("Exif\0\0", 6);

/// The orientation, 1 to 8, in the TIFF data that follow kExifStart: a whole number of any width,
/// of several the first. 1 where there is none, or where the data are not right.
int exif_orientation(std::string_view data);

}  // namespace duet
