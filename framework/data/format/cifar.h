// The binary version of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html):
// records of the labels, a byte each, and 3 x 32 x 32 bytes, channel by channel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/set/dataset.h"

namespace duet {

struct CifarFormat {
  int64_t labels = 1;  // of a record
  int64_t label = 0;   // which of them is taken
  int64_t classes = 10;
};

/// Adds the records of a file, plain or .gz, to `split`. Throws DataError with file, offset and
/// record: nothing in it, the end within a record, a label that is no class.
void read_cifar_file(const std::filesystem::path& file, const CifarFormat& format, Split& split);

/// The names in a file, a line each; throws DataError if they are not `classes` different ones.
std::vector<std::string> read_class_names(const std::filesystem::path& file, int64_t classes);

}  // namespace duet
