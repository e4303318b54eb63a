// JPEG, by libjpeg(-turbo). Its errors are longjmps: functions with setjmp hold plain values only,
// and nothing with a destructor is made between setjmp and a call of libjpeg.
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

// After <cstdio>, whose types they take for granted.
#include <jpeglib.h>

#include <jerror.h>

#include "core/error.h"
#include "core/printable.h"
#include "data/format/exif.h"
#include "data/format/image_file.h"

namespace duet {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kMostExif = 65535;
constexpr int kMostScans = 200;  // of a progressive file; each goes over the whole image

struct Errors {
  jpeg_error_mgr base;
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  jpeg->err->format_message(jpeg, errors->message);
  std::longjmp(errors->jump, 1);
}

// True of a warning that all data are there and mean what they should: bytes between markers are skipped,
// and a field of a header is wrong that decides nothing.
bool is_harmless(j_common_ptr jpeg) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(jpeg);
  switch (jpeg->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_ADOBE_XFORM:     // taken for YCbCr
    case JWRN_JFIF_MAJOR:      // a later version
    case JWRN_NOT_SEQUENTIAL:  // which coefficients a baseline scan holds: always all
      return true;
    case JWRN_BOGUS_PROGRESSION:  // of a component whose other coefficients come before its first
      return decompress->Ss > 0 && jpeg->err->msg_parm.i[1] == 0;
    default:
      return false;
  }
}

// Any other warning says that data are missing or wrong, and that grey will stand in for them.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && !is_harmless(jpeg)) on_error(jpeg);
}

void on_progress(j_common_ptr jpeg) {
  const auto* decompress = reinterpret_cast<j_decompress_ptr>(jpeg);
  if (decompress->input_scan_number <= kMostScans) return;
  auto* errors = reinterpret_cast<Errors*>(jpeg->err);
  std::snprintf(errors->message, sizeof errors->message, "more than %d scans", kMostScans);
  std::longjmp(errors->jump, 1);
}

bool read_header(jpeg_decompress_struct* jpeg, Errors* errors, std::string_view bytes) {
  if (setjmp(errors->jump)) return false;
  jpeg_create_decompress(jpeg);
  jpeg_save_markers(jpeg, kExifMarker, kMostExif);
  jpeg_mem_src(jpeg, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(jpeg, TRUE);
  return true;
}

bool read_rows(jpeg_decompress_struct* jpeg, Errors* errors, uint8_t* to) {
  if (setjmp(errors->jump)) return false;
  jpeg_start_decompress(jpeg);
  for (int i = 0; jpeg->coef_bits && i < jpeg->num_components; ++i) {  // of a progressive file
    if (jpeg->coef_bits[i][0] >= 0) continue;
    std::snprintf(errors->message, sizeof errors->message, "no scan has component %d's mean", i);
    return false;
  }
  const size_t row = size_t{jpeg->output_width} * static_cast<size_t>(jpeg->output_components);
  while (jpeg->output_scanline < jpeg->output_height) {
    JSAMPROW at = to + jpeg->output_scanline * row;
    jpeg_read_scanlines(jpeg, &at, 1);
  }
  jpeg_finish_decompress(jpeg);
  return true;
}

class JpegReader {
 public:
  JpegReader() {
    jpeg_.err = jpeg_std_error(&errors_.base);
    errors_.base.error_exit = on_error;
    errors_.base.emit_message = on_message;
    progress_.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  Image read(std::string_view bytes) {
    if (!read_header(&jpeg_, &errors_, bytes)) fail();
    check_image_size(jpeg_.image_height, jpeg_.image_width);
    const bool grey = jpeg_.jpeg_color_space == JCS_GRAYSCALE;
    if (jpeg_.jpeg_color_space == JCS_CMYK || jpeg_.jpeg_color_space == JCS_YCCK) {
      throw DataError("has the colours of a printer (CMYK); save it as RGB");
    }
    jpeg_.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_.progress = &progress_;
    Image image{jpeg_.image_height, jpeg_.image_width, grey ? 1 : 3, {}};
    image.pixels.resize(static_cast<size_t>(image.height * image.width * image.channels));
    const int orientation = exif_orientation_of_markers();
    if (!read_rows(&jpeg_, &errors_, image.pixels.data())) fail();
    return upright(std::move(image), orientation);
  }

 private:
  // Of all segments: what is too long for one goes on in the next.
  int exif_orientation_of_markers() const {
    std::string exif;
    for (const jpeg_marker_struct* m = jpeg_.marker_list; m; m = m->next) {
      const std::string_view data(reinterpret_cast<const char*>(m->data), m->data_length);
      if (m->marker != kExifMarker || !data.starts_with(kExifStart)) continue;
      exif += data.substr(kExifStart.size());
    }
    return exif_orientation(exif);
  }
  [[noreturn]] void fail() const {
    throw DataError("the JPEG data cannot be read: " + printable(errors_.message));
  }

  Errors errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct jpeg_{};
};

}  // namespace

Image read_jpeg(std::string_view bytes) { return JpegReader().read(bytes); }

}  // namespace duet
