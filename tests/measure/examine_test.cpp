#include <gtest/gtest.h>

#include "support/examine_cases.h"

namespace duet {
namespace {

TEST(Examine, DoublesAreCaught) { check_doubles_are_caught(Device::kCpu); }
TEST(Examine, SoundImplementationsPass) { check_sound_ones_pass(Device::kCpu); }

}  // namespace
}  // namespace duet
