// IDX, the file format of MNIST (http://yann.lecun.com/exdb/mnist): two zero bytes, an element
// type, a rank, then as many big-endian 32-bit sizes, then the elements in row-major order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/set/dataset.h"

namespace duet {

struct IdxArray {
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
};

/// Reads an IDX file of bytes with `rank` dimensions; a name that ends in ".gz" is gzip (its CRC
/// and length are checked). Throws DataError, with file and offset, if anything is not exactly
/// right, including bytes left over at the end. `check` looks at the dimensions before any data is
/// read, and throws; no more is read than they announce, nor memory taken before it is needed.
IdxArray read_idx(const std::filesystem::path& file, int rank,
                  const std::function<void(const std::vector<int64_t>& dims)>& check = {});

/// The files of one split. `shape` is that of an image: height and width, or before them channels.
struct IdxFiles {
  std::filesystem::path images;
  std::filesystem::path labels;
  std::vector<int64_t> shape;
};
/// Throws DataError if the headers are not right: sizes that the files do not have, images of
/// another shape, as many labels as there are not images.
void check_idx_headers(const IdxFiles& files);
/// The same of all that the files hold; each label is below `classes`.
Split read_idx_split(const IdxFiles& files, int64_t classes);

/// The four files of an IDX data set of images and labels.
const std::vector<std::string>& idx_dataset_files();
/// Finds the folder of `type` (data_folder) and reads it, holding it to `info`.
Dataset load_idx_dataset(const DatasetType& type, const DatasetInfo& info,
                         const std::filesystem::path& data_dir);

}  // namespace duet
