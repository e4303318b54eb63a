// What a command is asked to write is none of the files that it works from.
#include "core/output_files.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/input_file.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class OutputFiles : public testing::Test {
 protected:
  OutputFiles() {
    folder_.write("read", "text");
    read_input_file(folder_ / "read", 100);
  }
  std::string at(const std::string& name) const { return (folder_ / name).string(); }
  std::string refusal(const std::string& name, const std::vector<NamedFile>& inputs = {}) const {
    return error_of<ConfigError>([&] { check_outputs({{"--out", at(name)}}, inputs); });
  }

  const TemporaryFolder folder_;
};

TEST_F(OutputFiles, WhatWasReadIsKnownByEveryName) {
  fs::create_symlink("read", at("link"));
  fs::create_symlink(at("link"), at("link to link"));
  fs::create_hard_link(at("read"), at("hard link"));
  fs::create_directory(at("folder"));
  fs::create_directory_symlink(".", at("here"));
  for (const char* name :
       {"read", "link", "link to link", "hard link", "folder/../read", "here/read"}) {
    EXPECT_TRUE(InputFile::was_read(at(name))) << name;
    EXPECT_EQ(
        refusal(name),
        "--out " + at(name) + ": is a file that this command reads, too; give it one of its own");
  }
  folder_.write("other", "text");
  for (const char* name : {"other", "none", "made/none"}) EXPECT_EQ(refusal(name), "") << name;
  EXPECT_TRUE(fs::is_directory(at("made")));
  EXPECT_FALSE(fs::exists(at("none")));
  EXPECT_EQ(folder_.read("read"), "text");
}

TEST_F(OutputFiles, APageThatIsUpdatedIsRead) {
  EXPECT_EQ(error_of([&] { check_outputs({{"--into", at("read"), true}}); }), "");
  EXPECT_TRUE(has(error_of([&] {
                    check_outputs({{"--into", at("read"), true}}, {{"--from", at("./read")}});
                  }),
                  "is also the file of --from"));
}

TEST_F(OutputFiles, InputsThatAreStillToBeReadAreNamed) {
  folder_.write("rows.json", "{}");
  fs::create_symlink("rows.json", at("page"));
  EXPECT_TRUE(has(refusal("page", {{"--from", at("rows.json")}}), "is also the file of --from"));
  EXPECT_TRUE(has(refusal("new", {{"--from", at("./new")}}), "is also the file of --from"));
  EXPECT_TRUE(has(error_of([&] {
                    check_outputs({{"--out", at("a")}, {"--svg", at("./a")}, {"--page", ""}});
                  }),
                  "--svg", "is also the file of --out"));
}

TEST_F(OutputFiles, DevicesAndPipesMayBeSeveral) {
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  check_outputs({{"--out", "/dev/null"}, {"--svg", "/dev/null"}}, {{"--from", "/dev/null"}});
  check_outputs({{"--out", at("pipe")}, {"--svg", at("pipe")}});
}

}  // namespace
}  // namespace duet
