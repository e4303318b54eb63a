#include "data/picture_folder.h"

#include <algorithm>

#include "core/error.h"
#include "data/image_set.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 32;  // of folders; links may go round in a circle

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (!is_hidden(it->path())) entries.push_back(*it);
  }
  if (error) throw DataError(folder.string() + ": cannot be read: " + error.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void collect(const fs::path& folder, int depth, std::vector<fs::path>& files) {
  if (depth > kMostDepth) {
    throw DataError(folder.string() + ": lies more than " + std::to_string(kMostDepth) +
                    " folders deep; does a link go round in a circle?");
  }
  const std::vector<fs::directory_entry> entries = entries_of(folder);
  std::error_code ignored;
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_directory(ignored)) continue;
    if (is_picture_name(entry.path())) files.push_back(entry.path());
  }
  for (const fs::directory_entry& entry : entries) {
    if (entry.is_directory(ignored)) collect(entry.path(), depth + 1, files);
  }
}

}  // namespace

std::vector<std::string> folders_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : entries_of(folder)) {
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
  }
  return names;
}

std::vector<fs::path> pictures_below(const fs::path& folder) {
  std::vector<fs::path> files;
  collect(folder, 0, files);
  return files;
}

}  // namespace duet
