#include "data/set/image_set.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string_view>

#include "core/error.h"
#include "core/parallel.h"
#include "core/printable.h"
#include "data/batch/data_memory.h"
#include "data/format/image_file.h"
#include "data/format/resample.h"
#include "data/set/fingerprint.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostSize = 4096;
constexpr size_t kMostTold = 10;  // of the pictures that cannot be used

const std::set<std::string_view> kOtherPictures = {
    ".avif", ".bmp", ".dib", ".gif", ".heic", ".heif", ".jfif", ".jp2",  ".jpe",
    ".jxl",  ".pbm", ".pgm", ".pnm", ".ppm",  ".tga",  ".tif",  ".tiff", ".webp"};

// How CenterCrop rounds: to the nearest, halves to the even number.
int64_t half_to_even(int64_t twice) {
  const int64_t half = twice / 2;
  return twice % 2 == 0 || half % 2 == 0 ? half : half + 1;
}

struct WrongSize : DataError {
  using DataError::DataError;
};

// "a; b; ..." of the first.
std::string first_of(const std::vector<std::string>& all, const std::string& separator) {
  const auto end = all.begin() + static_cast<int64_t>(std::min(all.size(), kMostTold));
  return join({all.begin(), end}, separator) + (all.size() > kMostTold ? separator + "..." : "");
}

std::string count_text(const std::vector<std::string>& some, size_t all) {
  return std::to_string(some.size()) + " of " + std::to_string(all) + " pictures ";
}

// What became of one file.
struct Outcome {
  std::string error;
  bool unreadable = false;
};

Outcome read_one(const LabelledFile& one, const PictureRules& rules, uint8_t* to) {
  const fs::path& file = one.file;
  const auto named = [&](const std::string& what) { return file.string() + ": " + what; };
  Image read;
  try {
    read = read_image_file(file);
    if (one.height > 0 && (read.height != one.height || read.width != one.width)) {
      return {named("is " + size_text(read.height, read.width) +
                    " pixels (width x height), and its annotations are of " +
                    size_text(one.height, one.width)),
              true};
    }
  } catch (const DataError& error) {
    return {error.what(), true};
  } catch (const std::exception& error) {
    return {named(message_of(error)), true};
  }
  try {
    const std::vector<uint8_t> planes = planes_of(fit(read, rules));
    std::copy(planes.begin(), planes.end(), to);
    return {};
  } catch (const WrongSize& error) {
    return {named(error.what())};
  } catch (const std::exception& error) {
    return {named(message_of(error)), true};
  }
}

ImageFacts facts_of(const uint8_t* image, const PictureRules& rules) {
  const auto pixels = static_cast<size_t>(rules.height * rules.width);
  ImageFacts facts;
  for (size_t c = 0; c < static_cast<size_t>(rules.channels); ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      const uint64_t byte = image[c * pixels + i];
      facts.sums[c] += byte;
      facts.squares[c] += byte * byte;
    }
  }
  facts.hash = hash_of(image, static_cast<size_t>(rules.channels) * pixels);
  return facts;
}

// Split::read of images that stay in their files.
std::function<void(int64_t, uint8_t*)> reader_of(std::vector<LabelledFile> files,
                                                 const std::vector<ImageFacts>& facts,
                                                 const PictureRules& rules) {
  struct Known {
    std::vector<LabelledFile> files;
    std::vector<uint64_t> hashes;
  };
  Known known{std::move(files), {}};
  for (const ImageFacts& image : facts) known.hashes.push_back(image.hash);
  return [known = std::make_shared<const Known>(std::move(known)), rules](int64_t i, uint8_t* to) {
    const LabelledFile& file = known->files[static_cast<size_t>(i)];
    const Outcome outcome = read_one(file, rules, to);
    if (!outcome.error.empty()) {
      throw DataError(outcome.error + "; when the data set was loaded it was right");
    }
    const auto size = static_cast<size_t>(rules.channels * rules.height * rules.width);
    if (hash_of(to, size) == known->hashes[static_cast<size_t>(i)]) return;
    throw DataError(file.file.string() +
                    ": holds another picture than when the data set was loaded");
  };
}

}  // namespace

std::string first_told(const std::vector<std::string>& all, const std::string& separator) {
  const auto end = all.begin() + static_cast<int64_t>(std::min(all.size(), kMostTold));
  return join({all.begin(), end}, separator) + (all.size() > kMostTold ? separator + "..." : "");
}

PictureRules read_picture_rules(ConfigReader& reader, std::optional<int64_t> size) {
  PictureRules rules;
  rules.channels = reader.integer("channels", 3, 1, 3);
  if (rules.channels == 2) reader.error("channels", "expected 1 (grey) or 3 (colour)");
  std::tie(rules.height, rules.width) = reader.integer_pair("size", size, 1);
  if (std::max(rules.height, rules.width) > kMostSize) {
    reader.error("size", "expected at most " + std::to_string(kMostSize) + " pixels");
    rules.height = rules.width = 1;
  }
  if (const ConfigNode* node = reader.raw("resize")) {
    const bool is_list = node->kind == ConfigNode::Kind::kList;
    const auto [height, width] = reader.integer_pair("resize", {}, 1);
    if (is_list) {
      rules.resize = {height, width};
    } else {
      rules.shorter = height;
    }
    if (std::max(height, width) > kMostSize) {
      reader.error("resize", "expected at most " + std::to_string(kMostSize) + " pixels");
    } else if (height < (is_list ? rules.height : std::max(rules.height, rules.width)) ||
               width < rules.width) {
      reader.error("resize", "must not be smaller than 'size' (" +
                                 size_text(rules.height, rules.width) + ", width x height)");
    }
  }
  rules.skip = reader.choice("on_error", {"stop", "skip"}, "stop") == "skip";
  const ConfigNode* stream = reader.raw("stream");
  rules.stream = stream_of(stream ? stream->scalar : "auto");
  return rules;
}

Placement placement_of(int64_t height, int64_t width, const PictureRules& rules) {
  Placement placement{rules.resize.first, rules.resize.second};
  if (rules.shorter > 0) {
    // torchvision's: the longer side is rounded down.
    const int64_t longer = rules.shorter * std::max(height, width) / std::min(height, width);
    placement.height = height <= width ? rules.shorter : longer;
    placement.width = height <= width ? longer : rules.shorter;
  }
  if (placement.height > 0) {
    placement.top = half_to_even(placement.height - rules.height);
    placement.left = half_to_even(placement.width - rules.width);
    return placement;
  }
  if (height == rules.height && width == rules.width) return {height, width};
  throw WrongSize("is " + size_text(height, width) + " pixels (width x height), and data.size is " +
                  size_text(rules.height, rules.width) +
                  "; data.resize: " + std::to_string(std::max(rules.height, rules.width)) +
                  " scales the shorter side of each picture to that and takes the middle");
}

Image fit(const Image& image, const PictureRules& rules) {
  const Image colours = rules.channels == 1 ? to_grey(image) : to_rgb(image);
  const Placement at = placement_of(image.height, image.width, rules);
  if (!rules.resizes()) return colours;
  return crop(resample(colours, at.height, at.width, ResampleFilter::kBilinear), at.top, at.left,
              rules.height, rules.width);
}

std::function<Image(const Image&)> fit_by(const PictureRules& rules) {
  if (!rules.resizes()) return {};
  return [rules](const Image& picture) { return fit(picture, rules); };
}

Split read_labelled_files(const std::vector<LabelledFile>& files, const PictureRules& rules,
                          Dataset& data) {
  const auto size = static_cast<size_t>(rules.channels * rules.height * rules.width);
  const size_t bytes = files.size() * size;
  const bool kept = rules.stream != Stream::kFiles &&
                    (rules.stream != Stream::kAuto || 2 * bytes <= free_memory(Device::kCpu));
  if (kept) {
    require_memory(std::to_string(files.size()) + " pictures of " +
                       size_text(rules.height, rules.width) + " pixels",
                   bytes, "choose a smaller data.size, or data.stream: files");
  }
  Split split{0, std::vector<uint8_t>(kept ? bytes : 0), {}, {}};
  std::vector<Outcome> outcomes(files.size());
  split.facts.resize(files.size());
  parallel_for(static_cast<int64_t>(files.size()),
               static_cast<int64_t>(files.size()) * kWorthSharing, [&](int64_t i) {
                 thread_local std::vector<uint8_t> passing;
                 if (!kept) passing.resize(size);
                 uint8_t* const to =
                     kept ? split.images.data() + static_cast<size_t>(i) * size : passing.data();
                 outcomes[i] = read_one(files[i], rules, to);
                 if (outcomes[i].error.empty()) split.facts[i] = facts_of(to, rules);
               });
  std::vector<std::string> unreadable, wrong_sizes;
  std::vector<LabelledFile> there;  // the files of the split, if its images are not kept
  for (size_t i = 0; i < files.size(); ++i) {
    if (outcomes[i].unreadable) {
      unreadable.push_back(outcomes[i].error);
    } else if (!outcomes[i].error.empty()) {
      wrong_sizes.push_back(outcomes[i].error);
    } else {
      if (kept) {
        std::copy_n(split.images.begin() + static_cast<int64_t>(i * size), size,
                    split.images.begin() + split.count * static_cast<int64_t>(size));
      } else {
        there.push_back(files[i]);
      }
      split.facts[split.count] = split.facts[i];
      split.labels.push_back(files[i].label);
      ++split.count;
    }
  }
  if (!wrong_sizes.empty()) {
    throw DataError(count_text(wrong_sizes, files.size()) +
                    "have another size than the network takes:\n" + first_of(wrong_sizes, "\n"));
  }
  leave_out(unreadable, files.size(), "cannot be read", rules.skip, data);
  split.facts.resize(static_cast<size_t>(split.count));
  if (kept) {
    split.images.resize(static_cast<size_t>(split.count) * size);
  } else {
    split.read = reader_of(std::move(there), split.facts, rules);
  }
  return split;
}

void leave_out(const std::vector<std::string>& reasons, size_t all, const std::string& why,
               bool skip, Dataset& data) {
  if (reasons.empty()) return;
  const std::string count = count_text(reasons, all) + why;
  if (!skip) {
    throw DataError(count + ":\n" + first_of(reasons, "\n") +
                    "\ndata.on_error: skip leaves them out");
  }
  data.warnings.push_back(count + " and are left out: " + first_of(reasons, "; "));
  for (const std::string& picture : reasons) data.left_out.add(picture);
}

bool is_picture_name(const fs::path& file) {
  if (file.filename().string().starts_with(".")) return false;
  std::string extension = file.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (kOtherPictures.count(extension)) {
    throw DataError(file.string() +
                    ": only JPEG and PNG pictures are read, called .jpg, .jpeg or .png; convert "
                    "it, or move it away");
  }
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

}  // namespace duet
