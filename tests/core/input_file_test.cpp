// Files that are no files, larger than they may be, or of JSON that no parser should see.
#include "core/input_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

struct InputFileTest : testing::Test {
  const TemporaryFolder folder_;
};

TEST_F(InputFileTest, RefusesWhatIsNoRegularFileByItsKind) {
  const fs::path pipe = folder_ / "pipe", socket = folder_ / "socket", link = folder_ / "link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink(pipe, link);
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  std::strncpy(address.sun_path, socket.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::pair<fs::path, const char*> cases[] = {
      {folder_.path(), "is a folder"},
      {pipe, "is a pipe"},
      {link, "is a pipe"},
      {socket, "is a socket"},
      {"/dev/zero", "is a device"},
      {folder_ / "none", "cannot open: No such file"},
      {folder_ / "none/x", "No such"},
      {std::string(5000, 'x'), "cannot open: File name too long"}};
  for (const auto& [path, expected] : cases) {
    const std::string error = error_of<DataError>([&path = path] { read_input_file(path, 1000); });
    EXPECT_EQ(error.find(path.string() + ": "), 0u) << error;
    EXPECT_TRUE(has(error, expected));
  }
  close(listener);
}

TEST_F(InputFileTest, ReadsFilesUpToTheirLimit) {
  const fs::path file = folder_ / "file", link = folder_ / "link";
  const std::string content = std::string(3'000'000, 'a') + '\0' + 'b';
  folder_.write("file", content);
  fs::create_symlink("file", link);
  EXPECT_EQ(read_input_file(link, content.size()), content);
  EXPECT_TRUE(has(error_of<DataError>([&] { read_input_file(file, content.size() - 1); }),
                  "at most 3000001"));
  fs::resize_file(file, uint64_t{20} << 30);  // sparse
  EXPECT_TRUE(
      has(error_of<DataError>([&] { read_input_file(file, 1 << 20); }), "has 21474836480 bytes"));
  folder_.write("file", "");
  EXPECT_EQ(read_input_file(file, 0), "");
  // Files of the kernel say that they hold nothing.
  EXPECT_TRUE(has(read_input_file("/proc/self/status", 1 << 20), "Name:"));
  EXPECT_TRUE(
      has(error_of<DataError>([&] { read_input_file("/proc/self/status", 10); }), "at most 10"));
}

TEST(JsonBounds, BoundDepthAndCount) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += i % 2 ? "{\"a\":" : "[";
    return text;
  };
  check_json_bounds(nested(64));
  EXPECT_EQ(error_of<DataError>([&] { check_json_bounds(nested(65)); }),
            "offset 192: JSON nested more than 64 deep");
  EXPECT_NE(error_of<DataError>([&] { check_json_bounds(nested(100'000)); }), "");
  // What stands in a string is no bracket; the string's end is not hidden by one.
  check_json_bounds("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"");
  EXPECT_NE(error_of<DataError>([&] { check_json_bounds("\"\\\\\"" + nested(65)); }), "");
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "[[[[]]],1,{}],";
  check_json_bounds(many);  // one beside the other
  EXPECT_TRUE(
      has(error_of<DataError>([&] { check_json_bounds(std::string(4'000'001, ',')); }), "values"));
}

}  // namespace
}  // namespace duet
