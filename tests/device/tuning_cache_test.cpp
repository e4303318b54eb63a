#include "device/tuning_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace duet {
namespace {

namespace fs = std::filesystem;

class TuningCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("duet_tuning_cache_" + std::to_string(getpid()) + "_" + test->name());
    file_ = folder_ / "some" / "results.json";
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const std::string& text) {
    fs::create_directories(file_.parent_path());
    std::ofstream(file_) << text;
  }
  size_t files() const {
    const fs::directory_iterator all(file_.parent_path());
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  fs::path folder_, file_;
  const TuningCache::Entry entry_ = {{"algorithm", 1}, {"nanoseconds", int64_t{1} << 40}};
};

TEST_F(TuningCacheTest, RemembersFromRunToRun) {
  TuningCache first(file_);
  EXPECT_FALSE(first.find("a"));
  first.insert("a", entry_);
  EXPECT_EQ(first.find("a"), entry_);
  EXPECT_EQ(TuningCache(file_).find("a"), entry_);
  first.insert("a", {{"algorithm", 2}});
  EXPECT_EQ(TuningCache(file_).find("a"), (TuningCache::Entry{{"algorithm", 2}}));
  EXPECT_EQ(files(), 1u);  // no temporary file is left
  EXPECT_EQ(first.why_not_kept(), "");
}

TEST_F(TuningCacheTest, KeepsWhatOthersWrote) {
  TuningCache first(file_), second(file_);
  first.insert("a", entry_);
  second.insert("b", entry_);
  const TuningCache third(file_);
  EXPECT_EQ(third.find("a"), entry_);
  EXPECT_EQ(third.find("b"), entry_);
}

TEST_F(TuningCacheTest, ReplacesAFileThatIsNotOurs) {
  for (const char* text :
       {"", "{\"a\": {\"algo", "[1, 2]", "{\"a\": 3}", "{\"a\": {\"b\": \"c\"}}"}) {
    write(text);
    TuningCache cache(file_);
    EXPECT_FALSE(cache.find("a")) << text;
    cache.insert("a", entry_);
    EXPECT_EQ(TuningCache(file_).find("a"), entry_) << text;
  }
}

// Whoever waited for a pipe's content could wait for ever.
TEST_F(TuningCacheTest, ReplacesAPipe) {
  fs::create_directories(file_.parent_path());
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  TuningCache cache(file_);
  cache.insert("a", entry_);
  EXPECT_EQ(cache.why_not_kept(), "");
  EXPECT_EQ(TuningCache(file_).find("a"), entry_);
}

TEST_F(TuningCacheTest, WorksWithoutAFile) {
  TuningCache nowhere({});
  nowhere.insert("a", entry_);
  EXPECT_EQ(nowhere.find("a"), entry_);
  EXPECT_EQ(nowhere.why_not_kept(), "there is no home");

  write("");
  TuningCache unwritable(file_ / "below_a_file.json");
  unwritable.insert("a", entry_);
  EXPECT_EQ(unwritable.find("a"), entry_);
  EXPECT_NE(unwritable.why_not_kept().find(file_.string() + ": "), std::string::npos)
      << unwritable.why_not_kept();
}

TEST_F(TuningCacheTest, LivesInTheUsersCacheFolder) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::string(value) : std::string();
  };
  const std::string cache = variable("XDG_CACHE_HOME"), home = variable("HOME");
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "/var/cache/someone", 1);
  EXPECT_EQ(TuningCache::path_of("x.json"), "/var/cache/someone/duet/x.json");
  unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(TuningCache::path_of("x.json"), "/home/someone/.cache/duet/x.json");
  unsetenv("HOME");
  EXPECT_EQ(TuningCache::path_of("x.json"), "");
  if (!cache.empty()) setenv("XDG_CACHE_HOME", cache.c_str(), 1);
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace duet
