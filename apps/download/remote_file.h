// One file from the network, by libcurl.
#pragma once

#include "download.h"

namespace duet {

/// SHA-256 in hexadecimal. Throws RunError if the file cannot be read.
std::string sha256_of(const std::filesystem::path& file);

/// Makes `path` the published file. `urls` are asked in turn; see download() for the rest.
void fetch(const PublishedFile& file, const std::vector<std::string>& urls,
           const std::filesystem::path& path, const DownloadOptions& options);

/// Unpacks a .tar.gz or .zip into `folder`, where its entries appear whole or not at all. Throws
/// DataError for what is no such archive, or has entries outside of it, and RunError if the disk is
/// full.
void unpack(const std::filesystem::path& archive, const std::filesystem::path& folder);

}  // namespace duet
