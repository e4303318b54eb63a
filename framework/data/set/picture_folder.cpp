#include "data/set/picture_folder.h"

#include <algorithm>

#include "core/error.h"
#include "data/set/dataset.h"
#include "data/set/image_set.h"

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

PictureFolders read_picture_folders(ConfigReader& reader, const std::string& name,
                                    const std::string& train, const std::string& kind) {
  PictureFolders folders;
  folders.folder = reader.text("folder", name);
  folders.train = reader.text("train", train);
  if (reader.has("validation")) {
    folders.validation = reader.text("validation");
    reader.reject("validation_split", "'validation' names a " + kind);
  } else {
    reader.raw("validation");
    folders.split = read_validation_split(reader);
  }
  return folders;
}

FoundFolders find_folders(const PictureFolders& folders, const fs::path& data_dir) {
  std::vector<std::string> names = {folders.train};
  if (folders.validation) names.push_back(*folders.validation);
  FoundFolders found{.folder = data_folder({folders.folder, names}, "", data_dir)};
  found.train = (found.folder / folders.train).lexically_normal();
  if (folders.validation) {
    found.validation = (found.folder / *folders.validation).lexically_normal();
  }
  return found;
}

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
