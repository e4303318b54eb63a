#include "support/test_summary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace duet {
namespace {

std::string reason_of(const testing::TestResult& result) {
  for (int i = 0; i < result.total_part_count(); ++i) {
    const testing::TestPartResult& part = result.GetTestPartResult(i);
    if (!part.skipped()) continue;
    std::string reason = part.message();
    if (reason.starts_with(kUnsupported)) return "the implementation does not support the problem";
    std::replace(reason.begin(), reason.end(), '\n', ' ');
    return reason;
  }
  return "no reason given";
}

class SummaryWriter : public testing::EmptyTestEventListener {
 public:
  explicit SummaryWriter(std::string path) : path_(std::move(path)) {}

  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    if (result.Skipped()) {
      ++skipped_[reason_of(result)];
    } else {
      ++(result.Passed() ? passed_ : failed_);
    }
  }

  void OnTestProgramEnd(const testing::UnitTest& all) override {
    // A fault outside of any test, as in the set-up of a suite.
    if (!all.Passed() && failed_ == 0) failed_ = 1;
    std::ofstream file(path_);
    file << "passed " << passed_ << "\nfailed " << failed_ << '\n';
    for (const auto& [reason, count] : skipped_)
      file << "skipped " << count << ' ' << reason << '\n';
  }

 private:
  std::string path_;
  int passed_ = 0;
  int failed_ = 0;
  std::map<std::string, int> skipped_;
};

}  // namespace

void write_test_summary() {
  if (const char* path = std::getenv("DUET_TEST_SUMMARY")) {
    testing::UnitTest::GetInstance()->listeners().Append(new SummaryWriter(path));  // owned by it
    unsetenv("DUET_TEST_SUMMARY");  // or processes that tests start would write it too
  }
}

}  // namespace duet
