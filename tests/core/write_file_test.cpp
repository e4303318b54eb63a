// write_file() replaces what is a file, and nothing else.
#include "core/write_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "core/descriptor.h"
#include "core/error.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class WriteFile : public testing::Test {
 protected:
  fs::path at(const std::string& name) const { return folder_ / name; }
  std::string read(const std::string& name) const { return folder_.read(name); }

 private:
  const TemporaryFolder folder_;
};

TEST_F(WriteFile, ReplacesAFileAndKeepsItsPermissions) {
  write_file(at("a"), "old");
  fs::permissions(at("a"), fs::perms::owner_read | fs::perms::owner_write);
  write_file(at("a"), "new");
  EXPECT_EQ(read("a"), "new");
  EXPECT_EQ(fs::status(at("a")).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(WriteFile, ThreadsThatWriteOneFileLeaveAWholeOne) {
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c', 'd'}) {
    threads.emplace_back([this, text = std::string(100'000, letter)] {
      for (int i = 0; i < 20; ++i) write_file(at("shared"), text);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(read("shared"), std::string(100'000, read("shared")[0]));
}

TEST_F(WriteFile, FollowsLinks) {
  fs::create_directories(at("there"));
  fs::create_symlink("there/a", at("link"));
  fs::create_symlink("link", at("link to link"));
  for (const char* text : {"new", "newer"}) {  // first where nothing is there yet
    write_file(at("link to link"), text);
    EXPECT_TRUE(fs::is_symlink(at("link to link")) && fs::is_symlink(at("link")));
    EXPECT_EQ(read("there/a"), text);
  }
  EXPECT_TRUE(same_file(at("link"), at("there/../there/a")));
  EXPECT_FALSE(same_file(at("link"), at("there/b")));
}

TEST_F(WriteFile, WritesIntoAPipe) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  const int pipe = open(at("pipe").c_str(), O_RDWR | O_NONBLOCK);
  write_file(at("pipe"), "text");
  char text[8] = {};
  EXPECT_EQ(::read(pipe, text, sizeof text - 1), 4);
  EXPECT_STREQ(text, "text");
  close(pipe);
  EXPECT_TRUE(fs::is_fifo(at("pipe")));
}

TEST_F(WriteFile, DoesNotWaitForAReader) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", at("link"));
  for (const char* name : {"pipe", "link"}) {
    EXPECT_EQ(error_of<RunError>([&] { write_file(at(name), "text"); }),
              "cannot write " + at(name).string() + ": it is a pipe that nobody reads");
  }
  // One that comes while it is asked for gets everything, also more than a pipe holds.
  const std::string text(1 << 20, 'x');
  std::string read;
  std::thread reader([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const int pipe = open(at("pipe").c_str(), O_RDONLY);
    char part[4096];
    for (ssize_t got; (got = ::read(pipe, part, sizeof part)) > 0;) read.append(part, got);
    close(pipe);
  });
  write_file(at("pipe"), text);
  reader.join();
  EXPECT_TRUE(read == text);
}

TEST_F(WriteFile, NothingIsWrittenThroughTheTemporaryFile) {
  write_file(at("mine"), "mine");
  const fs::path temporary = at("a").string() + ".duet.tmp" + std::to_string(gettid());
  fs::create_symlink("mine", temporary);
  EXPECT_EQ(why_not_writable(at("a")), "");
  fs::create_symlink("mine", temporary);
  write_file(at("a"), "new");
  ASSERT_EQ(mkfifo(temporary.c_str(), 0600), 0);
  write_file(at("a"), "newer");
  EXPECT_EQ(read("a"), "newer");
  EXPECT_EQ(read("mine"), "mine");
}

TEST_F(WriteFile, OwnFilesAreAppendedToAndNoOthers) {
  for (const char* text : {"1", "2"}) EXPECT_TRUE(write_all(open_own_file(at("own")), text));
  EXPECT_EQ(read("own"), "12");
  write_file(at("mine"), "mine");
  fs::create_symlink("mine", at("link"));
  fs::create_symlink("none", at("loose link"));
  fs::create_hard_link(at("mine"), at("hard link"));
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  for (const char* name : {"link", "loose link", "hard link", "pipe"}) {
    EXPECT_TRUE(has(error_of<RunError>([&] { open_own_file(at(name)); }),
                    std::string(name) + ": is a link, a pipe or a device"));
  }
  EXPECT_TRUE(has(error_of<RunError>([&] { open_own_file(at("")); }), "Is a directory"));
  EXPECT_TRUE(has(error_of<RunError>([&] { open_own_file(at("none/a")); }), "No such file"));
  EXPECT_EQ(read("mine"), "mine");
  EXPECT_FALSE(fs::exists(at("none")));
}

TEST_F(WriteFile, ReplaceFileTakesThePlaceOfAPipe) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  replace_file(at("pipe"), {"new", " text"});
  EXPECT_EQ(read("pipe"), "new text");
  EXPECT_TRUE(fs::is_regular_file(at("pipe")));
}

TEST_F(WriteFile, RefusesWhatIsProtected) {
  write_file(at("a"), "old");
  fs::permissions(at("a"), fs::perms::owner_read);
  EXPECT_EQ(why_not_writable(at("a")), "it is read-only");
  EXPECT_THROW(write_file(at("a"), "new"), RunError);
  EXPECT_EQ(read("a"), "old");
  EXPECT_EQ(why_not_writable(at("")), "it is a folder");
  EXPECT_NE(why_not_writable(at("none/a")), "");
  EXPECT_EQ(why_not_writable(at("b")), "");
  EXPECT_FALSE(fs::exists(at("b")));
  EXPECT_EQ(why_not_writable(at(std::string(300, 'x'))), "File name too long");
  EXPECT_EQ(why_not_writable(at(std::string(252, 'x'))),
            "File name too long");  // with the process id
  EXPECT_EQ(why_not_writable(at(std::string(200, 'x'))), "");
  EXPECT_EQ(std::distance(fs::directory_iterator(at("")), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace duet
