// safetensors: the exact bytes, every way a file can be wrong, and writes that fail half-way.
#include "train/checkpoint/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <ctime>

#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class SafetensorsTest : public testing::Test {
 protected:
  std::string content() const { return folder_.read("model.safetensors"); }
  void put(const std::string& bytes) const { folder_.write("model.safetensors", bytes); }
  // A file of this header and data, without padding.
  void put(const std::string& header, const std::string& data) const {
    std::string length(8, '\0');
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i));
    put(length + header + data);
  }
  void expect_error(const std::vector<std::string>& parts) const {
    const std::string text = error_of<DataError>([&] { safetensors::read(path_); });
    EXPECT_EQ(text.find(path_.string() + ": "), 0u) << text;
    EXPECT_TRUE(has(text, parts));
  }
  void expect_header_error(const std::string& header, const std::string& data,
                           const std::vector<std::string>& parts) const {
    SCOPED_TRACE(header);
    put(header, data);
    expect_error(parts);
  }
  size_t files() const {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(folder_.path()), fs::directory_iterator()));
  }

  const TemporaryFolder folder_;
  const fs::path path_ = folder_ / "model.safetensors";
};

const float kWeight[6] = {1, -2, 3.5f, 0, 1e-40f, 6};
const double kSum = 0.1;
const int32_t kCounts[2] = {7, -1};
const uint8_t kBytes[3] = {1, 2, 255};

std::vector<safetensors::Entry> entries() {
  return {{"bytes", DType::kUInt8, {3}, kBytes},
          {"weight", DType::kFloat32, {2, 3}, kWeight},
          {"empty", DType::kFloat32, {0, 4}, nullptr},
          {"sum", DType::kFloat64, {}, &kSum},
          {"counts", DType::kInt32, {2}, kCounts}};
}

// Of many tensors, by the processor's time: every step that looked at all tensors for each of them
// would take minutes.
TEST_F(SafetensorsTest, ManyTensorsTakeLittleTime) {
  std::vector<safetensors::Entry> many;
  for (int i = 0; i < 40'000; ++i) {
    many.push_back({"layer" + std::to_string(i) + ".weight", DType::kFloat32, {6}, kWeight});
  }
  const std::clock_t start = std::clock();
  safetensors::write(path_, many, {{"step", "12"}});
  const safetensors::File file = safetensors::read(path_);
  ASSERT_EQ(file.entries().size(), many.size());
  for (const safetensors::Entry& entry : many) ASSERT_NE(file.find(entry.name), nullptr);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 15);
}

TEST_F(SafetensorsTest, RefusesHeadersWithoutBounds) {
  const std::string deep(100'000, '[');
  expect_header_error("{\"a\":" + deep, "", {"offset 8", "nested more than 64 deep"});
  std::string wide = "{\"a\":[0";
  for (int i = 0; i < 4'000'000; ++i) wide += ",0";
  put(wide + "]}", "");
  expect_error({"offset 8", "more than 4000000 values"});
}

TEST_F(SafetensorsTest, ComesBackAsItWas) {
  const safetensors::Metadata metadata = {{"step", "12"}, {"note", "\"quoted\"\n\u00e9"}};
  safetensors::write(path_, entries(), metadata);
  safetensors::File moved = safetensors::read(path_);
  const safetensors::File file = std::move(moved);
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.entries().size(), 5u);
  for (const safetensors::Entry& entry : entries()) {
    const safetensors::Entry* found = file.find(entry.name);
    ASSERT_NE(found, nullptr) << entry.name;
    EXPECT_EQ(found->dtype, entry.dtype);
    EXPECT_EQ(found->shape, entry.shape);
    ASSERT_EQ(found->bytes(), entry.bytes());
    if (entry.bytes() == 0) continue;
    EXPECT_EQ(std::memcmp(found->data, entry.data, entry.bytes()), 0);
  }
  EXPECT_EQ(file.find("bias"), nullptr);
  EXPECT_EQ(files(), 1u);
}

TEST_F(SafetensorsTest, HasTheBytesOfTheFormat) {
  const float x[2] = {1, 2};
  const uint8_t y = 9;
  safetensors::write(path_, {{"y", DType::kUInt8, {1}, &y}, {"x", DType::kFloat32, {2}, x}},
                     {{"format", "pt"}});
  // The wider type comes first, and spaces fill the header up to a multiple of 8.
  std::string header =
      R"({"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("y":{"dtype":"U8","shape":[1],"data_offsets":[8,9]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string expected(8, '\0');
  expected[0] = static_cast<char>(header.size());
  expected += header + std::string("\0\0\x80\x3f\0\0\0\x40\x09", 9);
  EXPECT_EQ(content(), expected);
}

TEST_F(SafetensorsTest, ReadsWhatOthersWrite) {
  // Any order of keys, spaces, no alignment, types that Duet does not have, escapes.
  put(R"({ "n":{"shape":[],"dtype":"I64","data_offsets":[1,9]},)"
      R"("b":{"data_offsets":[0,1],"dtype":"BOOL","shape":[1,1]},)"
      R"( "w\u0031":{"dtype":"F32","shape":[1],"data_offsets":[9,13]}})",
      std::string("\1\0\0\0\0\0\0\0\0\0\0\x80\x3f", 13));
  const safetensors::File file = safetensors::read(path_);
  ASSERT_EQ(file.entries().size(), 1u);
  EXPECT_EQ(file.entries()[0].name, "w1");
  EXPECT_EQ(*static_cast<const float*>(file.find("w1")->data), 1.0f);
  EXPECT_TRUE(file.metadata().empty());
  ASSERT_EQ(file.unread().size(), 2u);
  EXPECT_EQ(file.unread()[0].type, "BOOL");
  EXPECT_EQ(safetensors::misfit(file, "b", {1, 2}), "'b' is 1x1 BOOL there, but 1x2 float32 here");
  EXPECT_EQ(safetensors::misfit(file, "n", {}), "'n' is scalar I64 there, but scalar float32 here");
  EXPECT_EQ(safetensors::misfit(file, "w1", {2}), "'w1' is 1 float32 there, but 2 float32 here");
  EXPECT_EQ(safetensors::misfit(file, "w1", {1}), "");
  EXPECT_EQ(safetensors::misfit(file, "none", {1}), "");
  put("{}", "");
  EXPECT_TRUE(safetensors::read(path_).entries().empty());
}

TEST_F(SafetensorsTest, EveryCutIsRefused) {
  safetensors::write(path_, entries(), {{"step", "12"}});
  const std::string whole = content();
  for (size_t size = 0; size < whole.size(); ++size) {
    put(whole.substr(0, size));
    expect_error({"offset " + std::to_string(size), "truncated"});
  }
  put(whole + "x");
  expect_error({"offset " + std::to_string(whole.size()), "left over"});
}

// Whatever byte is damaged: an error or a file, never anything worse.
TEST_F(SafetensorsTest, DamagedHeadersAreHarmless) {
  safetensors::write(path_, entries(), {{"step", "12"}});
  const std::string whole = content();
  const size_t header_end = whole.size() - sizeof kWeight - sizeof kSum - sizeof kCounts - 3;
  int refused = 0;
  for (size_t at = 0; at < header_end; at += 5) {
    for (const char value : {'\0', '9', '"', '{', ',', '\xff'}) {
      std::string damaged = whole;
      damaged[at] = value;
      put(damaged);
      try {
        safetensors::read(path_);
      } catch (const DataError&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 200);
}

TEST_F(SafetensorsTest, SaysWhatIsWrong) {
  put(std::string(8, '\0'));
  expect_error({"offset 0", "length of a header", "found 0"});
  put(std::string(8, '\xff') + "{}");
  expect_error({"offset 0", "found 18446744073709551615"});
  put(std::string("\x10\0\0\0\0\0\0\0", 8) + "{}");
  expect_error({"offset 10", "expected a header of 16 bytes, found 2"});

  const std::string four(4, 'x');
  const auto tensor = [](const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
    return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  const std::string good = tensor(R"("F32")", "[1]", "[0,4]");
  expect_header_error("[]", "", {"offset 8", "JSON object"});
  expect_header_error("  {}", "", {"offset 8", "JSON object"});
  expect_header_error(R"({"a":})", "", {"offset 13", "not valid JSON"});
  expect_header_error("{\"\xff\":1}", "", {"not valid JSON"});
  expect_header_error("{} {}", "", {"offset 11", "not valid JSON"});
  expect_header_error(std::string("{}\0garbage", 10), "", {"the header", "offset 2: a byte 0"});
  expect_header_error(R"({"a":)" + good + R"(,"a":)" + good + "}", four, {"has 'a' twice"});
  expect_header_error(R"({"__metadata__":{"k":"1","k":"2"}})", "", {"has 'k' twice"});
  expect_header_error(R"({"__metadata__":7})", "", {"__metadata__ is not a JSON object"});
  expect_header_error(R"({"__metadata__":{"k":1}})", "", {"'k' is not text"});
  expect_header_error(R"({"a":1})", "", {"tensor 'a'", "exactly dtype"});
  expect_header_error(R"({"a":{"dtype":"F32","shape":[1]}})", four, {"exactly dtype"});
  expect_header_error(R"({"a":)" + tensor("\"F31\"", "[1]", "[0,4]") + "}", four,
                      {"unknown dtype \"F31\""});
  expect_header_error(R"({"a":)" + tensor("32", "[1]", "[0,4]") + "}", four, {"unknown dtype 32"});
  for (const char* shape : {"1", "[-1]", "[1.0]", "[\"1\"]", "[9223372036854775808]"}) {
    expect_header_error(R"({"a":)" + tensor("\"F32\"", shape, "[0,4]") + "}", four,
                        {"tensor 'a': shape is not a list of sizes"});
  }
  for (const char* offsets : {"4", "[4]", "[0,4,8]", "[4,0]", "[-4,0]"}) {
    expect_header_error(R"({"a":)" + tensor("\"F32\"", "[1]", offsets) + "}", four,
                        {"data_offsets is not [begin, end]"});
  }
  expect_header_error(R"({"a":)" + tensor("\"F32\"", "[4294967296,4294967296]", "[0,4]") + "}",
                      four, {"larger than any file"});
  expect_header_error(R"({"a":)" + tensor("\"F32\"", "[2]", "[0,4]") + "}", four,
                      {"takes 8 bytes, but its data_offsets [0,4] hold 4"});
  expect_header_error(R"({"a":)" + good + R"(,"b":)" + good + "}", four,
                      {"tensor 'b' begins at byte 0", "ends at byte 4"});
  expect_header_error(R"({"a":)" + tensor("\"F32\"", "[1]", "[4,8]") + "}", four + four,
                      {"tensor 'a' begins at byte 4", "ends at byte 0"});
  expect_header_error(R"({"a":)" + good + "}", "xxx",
                      {"truncated", "expected 4 bytes of tensors, found 3"});
  expect_header_error(R"({"a":)" + good + "}", "xxxxx", {"left over", "found 5"});

  fs::remove(path_);
  expect_error({"No such file or directory"});
  fs::create_directory(path_);
  expect_error({"not a regular file"});
}

TEST_F(SafetensorsTest, NamesMustBeUnique) {
  EXPECT_THROW(safetensors::write(path_, {entries()[0], entries()[0]}), std::logic_error);
  EXPECT_THROW(safetensors::write(path_, {{"__metadata__", DType::kUInt8, {3}, kBytes}}),
               std::logic_error);
  EXPECT_EQ(files(), 0u);
}

// Lets no file grow beyond `bytes` until the end of the scope: writes fail half-way, as on a full
// disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit old_{};
};

TEST_F(SafetensorsTest, AWriteThatFailsLeavesTheOldFile) {
  safetensors::write(path_, entries(), {{"step", "1"}});
  const std::string old = content();
  for (size_t limit = 0; limit < old.size(); limit += 5) {
    const std::string text = error_of<RunError>([&] {
      const FileSizeLimit full(limit);
      safetensors::write(path_, entries(), {{"step", "2"}});
    });
    EXPECT_EQ(text, "cannot write " + path_.string() + ": " + std::strerror(EFBIG));
    ASSERT_EQ(content(), old) << "limit " << limit;
    ASSERT_EQ(files(), 1u) << "limit " << limit;
  }
  const FileSizeLimit enough(old.size());
  safetensors::write(path_, entries(), {{"step", "2"}});
  EXPECT_EQ(safetensors::read(path_).metadata().at("step"), "2");
  EXPECT_EQ(files(), 1u);
}

TEST_F(SafetensorsTest, SaysWhyItCannotWrite) {
  const auto error = [](const fs::path& path) {
    return error_of<RunError>([&] { safetensors::write(path, entries()); });
  };
  const fs::path nowhere = folder_ / "none" / "model.safetensors";
  EXPECT_EQ(error(nowhere),
            "cannot write " + nowhere.string() + ": its folder: No such file or directory");
  put("a file");
  EXPECT_EQ(error(path_ / "model"),
            "cannot write " + (path_ / "model").string() + ": Not a directory");
  fs::remove(path_);
  fs::create_directory(path_);
  EXPECT_TRUE(has(error(path_), "is not a regular file"));
  EXPECT_EQ(files(), 1u);
}

TEST_F(SafetensorsTest, TextThatIsNotUtf8IsNotWritten) {
  // Replaced, the names would be one.
  const std::vector<safetensors::Entry> names = {{"a\xe9", DType::kUInt8, {3}, kBytes},
                                                 {"a\xe8", DType::kUInt8, {3}, kBytes}};
  EXPECT_TRUE(has(error_of<RunError>([&] { safetensors::write(path_, names); }),
                  "model.safetensors", "is not UTF-8"));
  for (const safetensors::Metadata& metadata :
       {safetensors::Metadata{{"config", "name: \xe9"}}, {{"\xe9", "text"}}}) {
    EXPECT_TRUE(has(error_of<RunError>([&] { safetensors::write(path_, entries(), metadata); }),
                    "is not UTF-8"));
  }
  EXPECT_EQ(files(), 0u);
  safetensors::write(path_, {{"é", DType::kUInt8, {3}, kBytes}}, {{"café", "学習"}});
  EXPECT_EQ(safetensors::read(path_).metadata().at("café"), "学習");
  EXPECT_NE(safetensors::read(path_).find("é"), nullptr);
}

}  // namespace
}  // namespace duet
