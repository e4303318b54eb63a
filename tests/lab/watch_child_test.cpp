// What a process of a watch does before a file is there to be examined.
#include "lab/watch_child.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "compare/results/results_json.h"
#include "core/interrupt.h"
#include "support/text.h"

namespace duet {
namespace {

// Ends when the times are there, as Ctrl-C would end it.
std::vector<WatchMessage> messages_of(const std::vector<std::string>& impls,
                                      const std::vector<std::string>& passes) {
  BenchOptions options;
  options.problems.layer = "relu";
  options.problems.shape = "n=4,in=8";
  options.impls = impls;
  options.passes = passes;
  KernelFile file;
  file.path = "none/relu_cpu_mine.cpp";
  file.type = "relu";
  file.id = "cpu_mine";
  WatchState state;
  state.files.push_back(file);
  const InterruptGuard guard;
  std::vector<WatchMessage> messages;
  run_watch_child(options, state, [&](const std::string& text) {
    messages.push_back(JsonReader::read<WatchMessage>(nlohmann::json::parse(text)));
    if (messages.back().times) raise(SIGINT);
  });
  return messages;
}

TEST(WatchChild, TimesOnceWhatANetworkWouldRun) {
  const std::vector<WatchMessage> messages = messages_of({}, {"forward"});
  ASSERT_GE(messages.size(), 3u);
  EXPECT_TRUE(has(messages.front().text, "what they are compared with, timed once"));
  const auto& last = messages.back();
  ASSERT_TRUE(last.times && last.environment && last.environment->ceilings);
  ASSERT_EQ(last.times->size(), 1u);
  const KeptTime& time = last.times->front();
  EXPECT_EQ(time.pass, "forward");
  EXPECT_EQ(time.id, "cpu_reference");
  EXPECT_GE(time.us.size(), 7u);
  EXPECT_EQ(time.measured.size(), std::string("2026-11-21T16:20:03Z").size());
}

TEST(WatchChild, GoesOnWhereThereIsNothingToCompareWith) {
  const std::vector<WatchMessage> messages = messages_of({"cpu_blas"}, {});  // relu has none
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_TRUE(has(messages.front().text, "nothing of this can be measured"));
  EXPECT_TRUE(messages.back().times && messages.back().times->empty());
}

}  // namespace
}  // namespace duet
