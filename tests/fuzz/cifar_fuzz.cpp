// CIFAR's binary files. The first letter says how the rest is to be read: t, as CIFAR-10; f and c, as
// CIFAR-100 with fine and coarse labels; z, as CIFAR-10 out of a gzip file; n, as names of classes.
#include "data/format/cifar.h"

#include <cstdlib>

#include "core/error.h"
#include "fuzz/fuzz_target.h"
#include "fuzz/input_path.h"

DUET_FUZZ_TARGET(cifar) {
  if (input.empty()) return;
  const char how = input[0];
  const auto path = duet::input_path(how == 'z' ? "input.gz" : "input", input.substr(1));
  duet::CifarFormat format;
  if (how == 'f') format = {.labels = 2, .label = 1, .classes = 100};
  if (how == 'c') format = {.labels = 2, .label = 0, .classes = 20};
  try {
    if (how == 'n') {
      if (duet::read_class_names(path, 3).size() != 3) std::abort();
      return;
    }
    duet::Split split;
    duet::read_cifar_file(path, format, split);
    const auto count = static_cast<size_t>(split.count);
    if (split.labels.size() != count || split.images.size() != 3072 * count) std::abort();
    for (const int32_t label : split.labels) {
      if (label < 0 || label >= format.classes) std::abort();
    }
  } catch (const duet::Error&) {
  }
}
