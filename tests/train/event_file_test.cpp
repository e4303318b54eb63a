// The bytes of event files. What TensorBoard reads in them: tests/tensorboard/.
#include "train/run/event_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/error.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

TEST(EventFile, ChecksumIsCastagnolis) {
  // RFC 3720, B.4, and the usual check value.
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c(""), 0u);
}

// The messages of a file, whose checksums hold.
std::vector<std::string> records_of(const std::string& bytes) {
  std::vector<std::string> records;
  for (size_t at = 0; at < bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    const std::string record = bytes.substr(at + 12, length);
    EXPECT_EQ(bytes.substr(at, length + 16), tf_record(record));
    records.push_back(record);
    at += length + 16;
  }
  return records;
}

TEST(EventFile, IsRecordsOfEvents) {
  const TemporaryFolder folder;
  EventFile file(folder.path());
  EXPECT_TRUE(file.path().filename().string().starts_with("events.out.tfevents."));
  file.scalars(300, {{"loss", 0.5}});
  const auto records = records_of(folder.read(file.path().filename()));
  ASSERT_EQ(records.size(), 2u);
  // wall_time; file_version: key 3 << 3 | 2, 13 bytes.
  EXPECT_EQ(records[0].substr(9),
            "\x1a\x0d"
            "brain.Event:2");
  // step: key 2 << 3, 300 as 0xAC 0x02; summary of 13 bytes: a value of 11: tag, simple_value.
  EXPECT_EQ(records[1].substr(9), std::string("\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15"
                                              "\x00\x00\x00\x3f",
                                              18));
}

// TensorBoard reads a folder's files in the order of their names.
TEST(EventFile, ALaterFileHasALaterName) {
  const TemporaryFolder folder;
  for (const char* name :
       {"events.out.tfevents.3333333333.zzz.99", "events.out.tfevents.33.zzz.99",
        "events.out.tfevents.99999999999", "events.out.tfevents.x", "run.json"}) {
    folder.write(name, "");
  }
  std::string last = "events.out.tfevents.3333333333.zzz.99";
  for (int i = 0; i < 3; ++i) {
    const std::string name = EventFile(folder.path()).path().filename();
    EXPECT_GT(name, last);
    last = name;
  }
}

TEST(EventFile, AStartVoidsWhatFollowedItsStep) {
  const TemporaryFolder folder;
  EventFile file(folder.path());
  file.start(300);
  const auto records = records_of(folder.read(file.path().filename()));
  ASSERT_EQ(records.size(), 2u);
  // step: 300; session_log: key 7 << 3 | 2, 2 bytes: status START.
  EXPECT_EQ(records[1].substr(9), "\x10\xac\x02\x3a\x02\x08\x01");
}

TEST(EventFile, EachFileIsNew) {
  const TemporaryFolder folder;
  const EventFile first(folder.path()), second(folder.path());
  EXPECT_NE(first.path(), second.path());
  EXPECT_TRUE(has(error_of<RunError>([&] { EventFile(folder / "none"); }), "cannot write ",
                  "No such file"));
}

TEST(EventFile, HistogramsLeaveOutWhatIsNotFinite) {
  const TemporaryFolder folder;
  EventFile file(folder.path());
  file.histogram(1, "none", {NAN, INFINITY});
  EXPECT_EQ(records_of(folder.read(file.path().filename())).size(), 1u);
  file.histogram(1, "equal", {2, 2, NAN});
  file.histogram(1, "some", {-1e30f, 3, 1e30f});
  EXPECT_EQ(records_of(folder.read(file.path().filename())).size(), 3u);
}

}  // namespace
}  // namespace duet
