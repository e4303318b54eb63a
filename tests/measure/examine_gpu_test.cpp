#include <gtest/gtest.h>

#include "layers/layers.h"
#include "measure/time/measure_pass.h"
#include "support/case_rig.h"
#include "support/examine_cases.h"
#include "support/gpu_test.h"

namespace duet {
namespace {

class ExamineOnGpu : public GpuTest {};

TEST_F(ExamineOnGpu, DoublesAreCaught) { check_doubles_are_caught(Device::kGpu); }
TEST_F(ExamineOnGpu, FarWritesAreCaught) { check_far_writes_are_caught(Device::kGpu); }
TEST_F(ExamineOnGpu, MemoryIsWatched) { check_memory_is_watched(Device::kGpu); }
TEST_F(ExamineOnGpu, FreshMemoryIsFilled) { check_fresh_memory_is_filled(Device::kGpu); }
TEST_F(ExamineOnGpu, SoundImplementationsPass) { check_sound_ones_pass(Device::kGpu); }
TEST_F(ExamineOnGpu, SoundImplementationsPassInBf16) { check_sound_ones_pass(Device::kGpu, true); }

}  // namespace
}  // namespace duet
