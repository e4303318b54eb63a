// Published data sets, fetched from where they are published (trainer download).
#pragma once

#include <functional>
#include <vector>

#include "data/set/dataset.h"

namespace duet {

struct DownloadOptions {
  /// The files go to data_dir/NAME, or if it is empty to the cache (cache_folder()).
  std::filesystem::path data_dir;
  /// Instead of the data set's own: URLs of folders that hold the files, asked in this order.
  std::vector<std::string> mirrors;
  /// Told now and then: bytes of `file` that are there.
  std::function<void(const std::string& file, int64_t done, int64_t total)> progress;
};

/// Fetches what is missing of the data set, unpacks archives, and returns its folder. A file gets its
/// name when its size and SHA-256 are those published. Until then it is NAME.part, which stays when
/// the connection ends, the disk is full or the user stops, and is gone on with the next time; with
/// other bytes than the published it is removed. One process at a time per folder.
///
/// Throws ConfigError for a data set that is not published as files, DataError if no mirror has the
/// file (with each one's reason), if a file of that name is another one or an archive is damaged,
/// RunError if the disk is full or an archive cannot be unpacked, InterruptedError, and UnsupportedError
/// where Duet was built without the libraries for it.
std::filesystem::path download(const DatasetType& type, const DownloadOptions& options);

}  // namespace duet
