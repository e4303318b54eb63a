#include "data/batch/augment.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <string>

namespace duet {
namespace {

constexpr int64_t kMostAugmented = 1 << 14;  // of padding, and of a hole

uint32_t of_65536(double share) { return static_cast<uint32_t>(std::lround(65536.0 * share)); }

class AugmentReader {
 public:
  AugmentReader(int64_t channels, int64_t height, int64_t width)
      : channels_(channels), height_(height), width_(width) {}

  void read(const std::string& type, ConfigReader& reader) {
    if (type == "random_resized_crop") return read_resized_crop(reader);
    if (type == "random_crop") return read_crop(reader);
    if (type == "horizontal_flip") return read_flip(reader);
    if (type == "colour_jitter") return read_jitter(reader);
    if (type == "mixup") {
      augment.mixup = reader.number("alpha", 0.2, 0.01, 100.0);
      return;
    }
    augment.cutout = static_cast<uint32_t>(reader.integer("size", {}, 1, kMostAugmented));
  }

  Augment augment;

 private:
  void read_resized_crop(ConfigReader& reader) {
    const auto range = [&](const char* key, std::vector<double> fallback, double most, double* to) {
      const std::vector<double> found = reader.numbers(key, fallback);
      if (found.size() == 2 && found[0] > 0.0 && found[0] <= found[1] && found[1] <= most) {
        std::copy(found.begin(), found.end(), to);
      } else {
        reader.error(key, "expected [least, most], above 0 and at most " +
                              std::to_string(static_cast<int>(most)));
        std::copy(fallback.begin(), fallback.end(), to);
      }
    };
    augment.resized_crop = true;
    range("scale", {0.08, 1.0}, 1.0, augment.area);
    range("ratio", {0.75, 4.0 / 3.0}, 100.0, augment.log_ratio);
    for (double& ratio : augment.log_ratio) ratio = std::log(ratio);
  }

  void read_crop(ConfigReader& reader) {
    augment.crop = static_cast<uint32_t>(reader.integer("padding", {}, 1, kMostAugmented));
    const std::string mode =
        reader.choice("padding_mode", {"constant", "edge", "reflect"}, "constant");
    if (mode == "edge") augment.padding = Augment::Padding::kEdge;
    if (mode == "reflect") augment.padding = Augment::Padding::kReflect;
    const int64_t side = std::min(height_, width_);
    const bool reflects = augment.padding == Augment::Padding::kReflect;
    if (side > 0 && augment.crop >= side + (reflects ? 0 : 1)) {
      reader.error("padding", "images of " + std::to_string(width_) + "x" +
                                  std::to_string(height_) + " can be padded by at most " +
                                  std::to_string(side - (reflects ? 1 : 0)) + " pixels");
    }
  }

  void read_flip(ConfigReader& reader) {
    augment.alternate = reader.flag("alternate", false);
    augment.flip = 65536;
    if (augment.alternate) {
      reader.reject("p", "with 'alternate' every image is flipped in every other epoch");
    } else {
      augment.flip = of_65536(reader.number("p", 0.5, 0.0, 1.0));
    }
  }

  void read_jitter(ConfigReader& reader) {
    if (channels_ != 1 && channels_ != 3) {
      reader.error("type", "colour_jitter is of images with 1 or 3 channels, not " +
                               std::to_string(channels_));
    }
    const auto strength = [&](const char* key) {
      return static_cast<uint32_t>(std::lround(256.0 * reader.number(key, 0.0, 0.0, 1.0)));
    };
    augment.brightness = strength("brightness");
    augment.contrast = strength("contrast");
    augment.saturation = strength("saturation");
  }

  const int64_t channels_, height_, width_;
};

}  // namespace

Augment read_augment(ConfigReader& reader, int64_t channels, int64_t height, int64_t width) {
  ConfigNode* list = reader.raw("augment");
  if (!list) return {};
  if (list->kind != ConfigNode::Kind::kList) {
    reader.error("augment", "expected a list: [{type: horizontal_flip}, ...]");
    return {};
  }
  AugmentReader augment(channels, height, width);
  std::set<std::string> seen;
  for (size_t i = 0; i < list->items.size(); ++i) {
    ConfigReader item(list->items[i], "data.augment[" + std::to_string(i) + "]", reader.errors());
    const std::string type =
        item.choice("type", {"random_resized_crop", "random_crop", "horizontal_flip",
                             "colour_jitter", "cutout", "mixup"});
    if (!item.has("type")) continue;
    if (!seen.insert(type).second) item.error("type", "'" + type + "' is there twice");
    augment.read(type, item);
    item.finish();
  }
  return augment.augment;
}

}  // namespace duet
