// Downloads from a web server on this machine, and what goes wrong on the way.
#include "download.h"

#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <csignal>

#include "core/error.h"
#include "download/web_server.h"
#include "remote_file.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using Answer = WebServer::Answer;
using Request = WebServer::Request;

/// A data set of one file with this content, published under its hash.
class Download : public testing::Test {
 protected:
  Download() {
    for (int i = 0; i < 300'000; ++i) content_ += static_cast<char>(i * i >> 7);
    folder_.write("content", content_);
    sha256_ = sha256_of(folder_ / "content");
    type_.remote.files = {{"a.bin", static_cast<int64_t>(content_.size()), sha256_}};
  }
  /// The file from `answer`, or from `from`, and what is told if that fails.
  std::string download_from(const std::vector<std::string>& mirrors) {
    try {
      EXPECT_EQ(download(type_, {folder_.path(), mirrors, {}}), folder_ / "some");
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  Answer whole(const Request& request) const {
    if (request.path != "/a.bin") return {"404 Not Found"};
    return {request.from > 0 ? "206 Partial Content" : "200 OK",
            content_.substr(static_cast<size_t>(request.from))};
  }
  std::string got() const { return folder_.read("some/a.bin"); }

  TemporaryFolder folder_;
  std::string content_, sha256_;
  DatasetType type_{"some", "", nullptr, {"a.bin"}};
};

TEST_F(Download, FetchesOnceAndKeepsWhatIsThere) {
  int asked = 0;
  const WebServer server([&](const Request& request) { return ++asked, whole(request); });
  EXPECT_EQ(download_from({server.url() + "/"}), "");
  EXPECT_TRUE(got() == content_);
  EXPECT_FALSE(fs::exists(folder_ / "some" / "a.bin.part"));
  EXPECT_EQ(download_from({server.url()}), "");
  EXPECT_EQ(asked, 1);
}

TEST_F(Download, GoesOnWhereTheConnectionEnded) {
  std::vector<int64_t> from;
  const WebServer server([&](const Request& request) {
    from.push_back(request.from);
    Answer answer = whole(request);
    answer.stop = 100'000;
    return answer;
  });
  EXPECT_EQ(download_from({server.url()}), "");
  EXPECT_TRUE(got() == content_);
  EXPECT_EQ(from, (std::vector<int64_t>{0, 100'000, 200'000}));
}

TEST_F(Download, AServerThatKnowsNoRangesSendsAllAgain) {
  int asked = 0;
  const WebServer server([&](const Request& request) {
    Answer answer = whole({request.path, 0});
    if (++asked == 1) answer.stop = 100'000;
    return answer;
  });
  EXPECT_EQ(download_from({server.url()}), "");
  EXPECT_TRUE(got() == content_);
  EXPECT_EQ(asked, 2);
}

TEST_F(Download, APartOfAnotherProcessIsGoneOnWith) {
  std::vector<int64_t> from;
  const WebServer server(
      [&](const Request& request) { return from.push_back(request.from), whole(request); });
  fs::create_directories(folder_ / "some");
  folder_.write("some/a.bin.part", content_.substr(0, 5));
  EXPECT_EQ(download_from({server.url()}), "");
  EXPECT_TRUE(got() == content_);
  EXPECT_EQ(from, (std::vector<int64_t>{5}));
}

TEST_F(Download, OfAPartThatIsWrongNothingIsKept) {
  std::vector<int64_t> from;
  const WebServer server(
      [&](const Request& request) { return from.push_back(request.from), whole(request); });
  fs::create_directories(folder_ / "some");
  folder_.write("some/a.bin.part", "wrong");
  EXPECT_EQ(download_from({server.url()}), "");
  EXPECT_TRUE(got() == content_);
  EXPECT_EQ(from, (std::vector<int64_t>{5, 0}));
}

TEST_F(Download, AsksTheNextMirrorAndTellsWhatEachDid) {
  const WebServer gone([](const Request&) { return Answer{"404 Not Found"}; });
  const WebServer wrong([&](const Request&) {
    return Answer{"200 OK", std::string(content_.size(), 'x')};
  });
  const WebServer longer([&](const Request&) { return Answer{"200 OK", content_ + "more", -2}; });
  const WebServer good([&](const Request& request) { return whole(request); });
  const std::string told =
      download_from({gone.url(), wrong.url(), longer.url(), "http://127.0.0.1:1"});
  EXPECT_TRUE(has(told, {gone.url() + "/a.bin: The requested URL returned error: 404",
                         wrong.url() + "/a.bin: sends another file", "SHA-256 is not " + sha256_,
                         longer.url() + "/a.bin: sends more than the 300000 bytes",
                         "http://127.0.0.1:1/a.bin: Failed to connect", "--mirror URL"}))
      << told;
  EXPECT_TRUE(fs::is_empty(folder_ / "some"));
  EXPECT_EQ(download_from({gone.url(), wrong.url(), longer.url(), good.url()}), "");
  EXPECT_TRUE(got() == content_);
}

TEST_F(Download, AFileOfAnotherSizeIsNotBegun) {
  const WebServer shorter([&](const Request&) { return Answer{"200 OK", "<html>sign in</html>"}; });
  const WebServer longer([&](const Request& request) {
    Answer answer = whole(request);
    answer.body += "more";
    return answer;
  });
  fs::create_directories(folder_ / "some");
  folder_.write("some/a.bin.part", content_.substr(0, 5));
  const std::string told = download_from({shorter.url(), longer.url()});
  EXPECT_TRUE(has(told, {shorter.url() + "/a.bin: has another file than the published, of 20 bytes "
                                         "and not 300000 bytes",
                         longer.url() + "/a.bin: has another file than the published, of 300004"}))
      << told;
  EXPECT_EQ(folder_.read("some/a.bin.part"), content_.substr(0, 5));
}

TEST_F(Download, WhatHasComeStays) {
  int asked = 0;
  const WebServer server([&](const Request& request) {
    Answer answer = ++asked == 1 ? whole(request) : Answer{"503 Service Unavailable"};
    answer.stop = 1000;
    return answer;
  });
  EXPECT_TRUE(has(download_from({server.url()}), {"503", "What has come is kept"}));
  EXPECT_EQ(fs::file_size(folder_ / "some" / "a.bin.part"), 1000u);
}

// Whatever stands under the name of what has come, no other file is written or waited for.
TEST_F(Download, WhatHasComeIsAFileOfItsOwn) {
  const WebServer server([&](const Request& request) { return whole(request); });
  fs::create_directories(folder_ / "some");
  const fs::path part = folder_ / "some/a.bin.part";
  for (const std::string& mine : {std::string("mine"), content_, content_ + "more"}) {
    folder_.write("mine", mine);
    for (const std::function<void()>& make :
         std::vector<std::function<void()>>{[&] { fs::create_symlink("../mine", part); },
                                            [&] { fs::create_hard_link(folder_ / "mine", part); },
                                            [&] { ASSERT_EQ(mkfifo(part.c_str(), 0600), 0); }}) {
      make();
      EXPECT_TRUE(has(download_from({server.url()}),
                      {"a.bin.part: is a link, a pipe or a device, and a regular file is needed"}));
      EXPECT_TRUE(folder_.read("mine") == mine);
      fs::remove(part);
    }
  }
  fs::create_symlink("../new", part);  // there is no such file
  EXPECT_TRUE(has(download_from({server.url()}), {"is a link"}));
  EXPECT_FALSE(fs::exists(folder_ / "new"));
  fs::remove(part);
  EXPECT_EQ(download_from({server.url()}), "");
}

TEST_F(Download, AFileOfTheUsersIsNotReplaced) {
  type_.files = {"a.bin", "b.bin"};  // a.bin alone is not the data set
  fs::create_directories(folder_ / "some");
  folder_.write("some/a.bin", "mine");
  EXPECT_TRUE(has(download_from({"http://127.0.0.1:1"}), {"a.bin", "is not the published file"}));
  EXPECT_EQ(got(), "mine");
}

TEST_F(Download, WhatIsNotPublishedIsRefused) {
  type_.remote.files.clear();
  EXPECT_TRUE(has(download_from({}), {"some is not published as files", "cifar10", "mnist"}));
}

TEST_F(Download, AFullDiskIsToldAndWhatHasComeStays) {
  const WebServer server([&](const Request& request) { return whole(request); });
  const auto limited = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50'000, 50'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::fprintf(stderr, "told: %s\n", download_from({server.url()}).c_str());
    _exit(0);
  };
  EXPECT_EXIT(limited(), testing::ExitedWithCode(0),
              "told: .*a.bin.part: File too large; make room for 250000 bytes more");
  EXPECT_EQ(fs::file_size(folder_ / "some" / "a.bin.part"), 50'000u);
  EXPECT_EQ(download_from({server.url()}), "");
  EXPECT_TRUE(got() == content_);
}

// Archives.

std::string packed(const std::vector<std::pair<std::string, std::string>>& files, bool zip) {
  std::string bytes(1 << 20, 0);
  size_t used = 0;
  archive* const to = archive_write_new();
  zip ? archive_write_set_format_zip(to) : archive_write_set_format_pax_restricted(to);
  if (!zip) archive_write_add_filter_gzip(to);
  archive_write_open_memory(to, bytes.data(), bytes.size(), &used);
  for (const auto& [name, text] : files) {
    archive_entry* const entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    const bool link = text.starts_with("-> ");
    archive_entry_set_filetype(entry, link ? AE_IFLNK : AE_IFREG);
    if (link) archive_entry_set_symlink(entry, text.c_str() + 3);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, link ? 0 : static_cast<la_int64_t>(text.size()));
    archive_write_header(to, entry);
    if (!link) archive_write_data(to, text.data(), text.size());
    archive_entry_free(entry);
  }
  archive_write_close(to);
  archive_write_free(to);
  return bytes.substr(0, used);
}

class Unpack : public testing::Test {
 protected:
  std::string unpack_of(const std::string& bytes) {
    folder_.write("archive", bytes);
    fs::create_directories(folder_ / "to");
    try {
      unpack(folder_ / "archive", folder_ / "to");
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  TemporaryFolder folder_;
};

TEST_F(Unpack, BothKinds) {
  for (const bool zip : {false, true}) {
    fs::remove_all(folder_ / "to");
    EXPECT_EQ(unpack_of(packed({{"top/a", "1"}, {"top/deep/b", std::string(100'000, '2')}}, zip)),
              "");
    EXPECT_EQ(folder_.read("to/top/a"), "1");
    EXPECT_EQ(folder_.read("to/top/deep/b"), std::string(100'000, '2'));
    EXPECT_FALSE(fs::exists(folder_ / "to/.unpacking"));
  }
}

TEST_F(Unpack, NothingAppearsOfWhatIsNotWhole) {
  std::string random;
  for (int i = 0; i < 50'000; ++i) random += static_cast<char>(i * 2654435761u >> 13);
  const std::string whole = packed({{"top/a", "1"}, {"top/b", random}}, false);
  EXPECT_TRUE(has(unpack_of(whole.substr(0, whole.size() / 2)), {"archive: ", "download again"}));
  EXPECT_TRUE(has(unpack_of("this is no archive"), {"archive: ", "download again"}));
  EXPECT_TRUE(fs::is_empty(folder_ / "to"));
}

TEST_F(Unpack, NothingLeavesTheFolder) {
  for (const std::string name : {"../out", "top/../../out", "/tmp/duet_out"}) {
    EXPECT_TRUE(has(unpack_of(packed({{name, "1"}}, false)), {name, "is no file within it"}));
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
  EXPECT_TRUE(has(unpack_of(packed({{"link", "-> /tmp"}}, false)), {"link"}));
  EXPECT_TRUE(fs::is_empty(folder_ / "to"));
}

TEST_F(Unpack, WhatIsInTheWayStays) {
  fs::create_directories(folder_ / "to/top");
  EXPECT_TRUE(has(unpack_of(packed({{"top/a", "1"}}, true)), {"top: is in the way"}));
  EXPECT_TRUE(fs::is_empty(folder_ / "to/top"));
}

// The whole way of an archive, by the trainer.
TEST_F(Download, AnArchiveBecomesTheDataSet) {
  const std::string bytes = packed({{"top/x", "1"}, {"top/y", "2"}}, false);
  folder_.write("content", bytes);
  sha256_ = sha256_of(folder_ / "content");
  type_.files = {"x", "y"};
  type_.unpacked = "top";
  type_.remote.files = {{"all.tar.gz", static_cast<int64_t>(bytes.size()), sha256_}};
  const WebServer server([&](const Request&) { return Answer{"200 OK", bytes}; });
  EXPECT_EQ(download(type_, {folder_.path(), {server.url()}, {}}), folder_ / "some" / "top");
  EXPECT_FALSE(fs::exists(folder_ / "some" / "all.tar.gz"));
  type_.files.push_back("z");
  EXPECT_THROW(download(type_, {folder_.path(), {server.url()}, {}}), DataError);
}

}  // namespace
}  // namespace duet
