// Tiny-ImageNet's text files, as annotations and as words.
#include "data/format/annotations.h"

#include <cstdlib>

#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/input_path.h"

DUET_FUZZ_TARGET(annotations) {
  const std::vector<std::string> ids = {"n01", "n02"};
  const auto path = duet::input_path("input", input);
  try {
    for (const duet::Annotation& annotation : duet::read_annotations(path, ids)) {
      if (annotation.label < 0 || annotation.label > 1 || annotation.line < 1) std::abort();
      if (annotation.picture.empty() || annotation.picture.find('/') != std::string::npos) {
        std::abort();
      }
    }
  } catch (const duet::Error&) {
  }
  try {
    if (duet::read_words(path, ids).size() != 2) std::abort();
  } catch (const duet::Error&) {
  }
}
