// Annotations in COCO's JSON form, and what becomes of their boxes. There are no pictures.
#include "data/format/coco.h"

#include <cstdlib>

#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/input_path.h"

DUET_FUZZ_TARGET(coco) {
  try {
    const auto path = duet::input_path("input.json", input);
    const duet::Annotations annotations = duet::read_coco(path);
    const auto classes = static_cast<int32_t>(annotations.classes.size());
    for (const duet::AnnotatedPicture& picture : annotations.pictures) {
      if (picture.height < 1 || picture.width < 1) std::abort();
      for (const duet::AnnotatedBox& box : picture.boxes) {
        if (box.label < 0 || box.label >= classes) std::abort();
      }
    }
    duet::BoxRules rules{.most = 2};
    rules.pictures.height = rules.pictures.width = rules.pictures.shorter = 8;
    rules.pictures.skip = true;
    duet::Dataset data;
    const duet::Split split =
        read_boxed_pictures(annotations, path, path.parent_path(), rules, data);
    if (split.count != 0) std::abort();
  } catch (const duet::Error&) {
  }
}
