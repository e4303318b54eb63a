#include "train/run/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/write_file.h"
#include "data/format/image_file.h"

namespace duet {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0);
    table[i] = value;
  }
  return table;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Little-endian, as everything that Duet runs on.
template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A protocol buffers message, field by field (protobuf.dev/programming-guides/encoding).
class Message {
 public:
  Message& integer(int field, int64_t value) {
    key(field, 0);
    varint(static_cast<uint64_t>(value));
    return *this;
  }
  Message& number(int field, double value) {
    key(field, 1);
    text_ += bytes_of(value);
    return *this;
  }
  Message& number(int field, float value) {
    key(field, 5);
    text_ += bytes_of(value);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    text_ += value;
    return *this;
  }
  Message& numbers(int field, const std::vector<double>& values) {
    return bytes(field,
                 {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
  }
  const std::string& text() const { return text_; }

 private:
  void key(int field, int type) { varint(static_cast<uint64_t>(field << 3 | type)); }
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7) text_ += static_cast<char>(value | 128);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

const std::string kNameStart = "events.out.tfevents.";
constexpr int64_t kLastTime = 9'999'999'999;  // later ones have another number of digits

// Fields of Event.
constexpr int kSummary = 5, kSessionLog = 7;
// Fields of Summary.Value.
constexpr int kTag = 1, kSimpleValue = 2, kImage = 4, kHistogram = 5;

// The latest time in the names of a folder's event files; 0 without any.
int64_t latest_in(const std::filesystem::path& folder) {
  int64_t latest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with(kNameStart)) continue;
    int64_t time = 0;
    std::from_chars(name.data() + kNameStart.size(), name.data() + name.size(), time);
    if (time < kLastTime) latest = std::max(latest, time);
  }
  return latest;
}

std::string summary_of(const Message& value) { return Message().bytes(1, value.text()).text(); }

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(byte)) & 255];
  return ~crc;
}

std::string tf_record(std::string_view bytes) {
  const auto masked = [](std::string_view part) {
    const uint32_t crc = crc32c(part);
    return bytes_of(static_cast<uint32_t>(((crc >> 15) | (crc << 17)) + 0xA282EAD8u));
  };
  const std::string length = bytes_of(static_cast<uint64_t>(bytes.size()));
  return length + masked(length) + std::string(bytes) + masked(bytes);
}

EventFile::EventFile(const std::filesystem::path& folder) {
  char host[256] = "host";
  gethostname(host, sizeof host - 1);
  const double start = now();
  const int64_t time = std::max(static_cast<int64_t>(start), latest_in(folder) + 1);
  const std::string name =
      kNameStart + std::to_string(time) + "." + host + "." + std::to_string(getpid());
  path_ = folder / name;
  for (int i = 2;; ++i) {
    file_ = Descriptor(path_, O_WRONLY | O_APPEND | O_CREAT | O_EXCL, 0666);
    if (file_) break;
    if (errno != EEXIST) throw RunError("cannot write " + path_.string() + ": " + strerror(errno));
    path_ = folder / (name + "." + std::to_string(i));
  }
  append(Message().number(1, start).bytes(3, "brain.Event:2").text());
}

void EventFile::start(int64_t step) {
  constexpr int kStatus = 1, kStart = 1;
  write(step, kSessionLog, Message().integer(kStatus, kStart).text());
}

void EventFile::scalars(int64_t step, const std::vector<std::pair<std::string, double>>& values) {
  std::string summary;
  for (const auto& [tag, value] : values) {
    summary +=
        summary_of(Message().bytes(kTag, tag).number(kSimpleValue, static_cast<float>(value)));
  }
  write(step, kSummary, summary);
}

void EventFile::histogram(int64_t step, const std::string& tag, const std::vector<float>& values) {
  double least = INFINITY, largest = -INFINITY, count = 0, sum = 0, squares = 0;
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    largest = std::max(largest, value);
    ++count;
    sum += value;
    squares += value * value;
  }
  if (count == 0) return;
  // Of a single value one bucket, which must have a width.
  const double width = largest > least ? (largest - least) / kBuckets : 1.0;
  std::vector<double> limits, buckets(largest > least ? kBuckets : 1);
  for (size_t i = 1; i <= buckets.size(); ++i) {
    limits.push_back(i == buckets.size() ? std::max(largest, least + width * 0.5)
                                         : least + width * static_cast<double>(i));
  }
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const auto place = static_cast<size_t>((value - least) / width);
    ++buckets[std::min(place, buckets.size() - 1)];
  }
  const Message histogram = Message()
                                .number(1, least)
                                .number(2, largest)
                                .number(3, count)
                                .number(4, sum)
                                .number(5, squares)
                                .numbers(6, limits)
                                .numbers(7, buckets);
  write(step, kSummary, summary_of(Message().bytes(kTag, tag).bytes(kHistogram, histogram.text())));
}

void EventFile::image(int64_t step, const std::string& tag, const Image& image) {
  const Message picture = Message()
                              .integer(1, image.height)
                              .integer(2, image.width)
                              .integer(3, image.channels)
                              .bytes(4, png_of(image));
  write(step, kSummary, summary_of(Message().bytes(kTag, tag).bytes(kImage, picture.text())));
}

void EventFile::write(int64_t step, int field, const std::string& message) {
  append(Message().number(1, now()).integer(2, step).bytes(field, message).text());
}

void EventFile::append(const std::string& event) {
  if (write_all(file_, tf_record(event))) return;
  throw RunError("cannot write " + path_.string() + ": " + std::strerror(errno));
}

}  // namespace duet
