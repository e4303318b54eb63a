#include "device/tuning_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>

#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

class TuningCacheTest : public testing::Test {
 protected:
  void write(const std::string& text) { folder_.write("some/results.json", text); }
  size_t files() const {
    const fs::directory_iterator all(file_.parent_path());
    return static_cast<size_t>(std::distance(begin(all), end(all)));
  }

  const TemporaryFolder folder_;
  const fs::path file_ = folder_ / "some" / "results.json";
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
  EXPECT_TRUE(has(unwritable.why_not_kept(), file_.string() + ": "));
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
