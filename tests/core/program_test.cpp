#include "core/program.h"

#include <gtest/gtest.h>

namespace duet {
namespace {

TEST(Program, IsCalledAsThisOneWas) {
  EXPECT_EQ(as_started("trainer list impls"), "trainer list impls");
  set_program("build/release/apps/bench");
  EXPECT_EQ(as_started("trainer list impls"), "build/release/apps/trainer list impls");
  set_program("/my builds/bench");
  EXPECT_EQ(as_started("trainer"), "'/my builds/'trainer");
  set_program("bench");
  EXPECT_EQ(as_started("trainer"), "trainer");
  set_program(nullptr);
  EXPECT_EQ(as_started("trainer"), "trainer");
}

}  // namespace
}  // namespace duet
