// PNG and JPEG files.
#include <cstdlib>

#include "core/error.h"
#include "data/format/image_file.h"
#include "fuzz/fuzz_target.h"

DUET_FUZZ_TARGET(picture) {
  for (duet::Image (*read)(std::string_view) : {duet::read_png, duet::read_jpeg}) {
    try {
      const duet::Image image = read(input);
      const int64_t bytes = image.height * image.width * image.channels;
      if (static_cast<int64_t>(image.pixels.size()) != bytes) std::abort();
    } catch (const duet::Error&) {
    }
  }
}
