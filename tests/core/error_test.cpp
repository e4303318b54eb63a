#include "core/error.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

TEST(Error, IsToldInWords) {
  EXPECT_EQ(message_of(RunError("the disk is full")), "the disk is full");
  EXPECT_EQ(message_of(std::bad_alloc()).find("out of memory"), 0u);
}

TEST(Error, HasAnExitCode) {
  EXPECT_EQ(exit_code_of(ConfigError("")), kExitUsage);
  EXPECT_EQ(exit_code_of(InterruptedError()), kExitInterrupted);
  EXPECT_EQ(exit_code_of(std::bad_alloc()), kExitFailure);
}

}  // namespace
}  // namespace duet
