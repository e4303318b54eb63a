// Pictures with boxes, as annotations of any format name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/batch/boxes.h"
#include "data/set/dataset.h"
#include "data/set/image_set.h"

namespace duet {

struct AnnotatedBox {
  double left = 0, top = 0, right = 0, bottom = 0;  // edges, in pixels of the picture as it is
  int32_t label = 0;
  std::string place = {};  // in the annotations, for messages
};

struct AnnotatedPicture {
  std::string name;               // of its file, below the folder of the pictures
  int64_t height = 0, width = 0;  // at least 1
  std::vector<AnnotatedBox> boxes = {};
  std::string mistake = {};  // why it cannot be used; empty if nothing says so
};

struct Annotations {
  std::vector<std::string> classes;  // their names, by labels
  std::vector<AnnotatedPicture> pictures;
  int64_t crowds = 0;  // boxes of many things as one, which are left out
};

struct BoxRules {
  PictureRules pictures;
  int64_t most = 0;  // boxes of a picture
};
/// The field of their boxes.
RecordField boxes_field(const BoxRules& rules, int64_t classes);

/// Adds the record of a sample with these boxes, and behind them none.
void add_record(const std::vector<Box>& boxes, int64_t most, std::vector<uint32_t>& words);

/// Reads the pictures, in `folder`, that `annotations`, of `file`, name. The split's only record is
/// Boxes: they are cut to their picture, go with it where it is resized and cropped, and are left
/// out where less than a tenth of their area remains then (cut_box()); data.warnings count both.
/// Throws DataError, with all mistakes that the annotations show and then with all pictures that
/// cannot be read; or with on_error: skip leaves these pictures out.
Split read_boxed_pictures(const Annotations& annotations, const std::filesystem::path& file,
                          const std::filesystem::path& folder, const BoxRules& rules,
                          Dataset& data);

}  // namespace duet
