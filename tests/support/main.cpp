// duet_tests (DUET_TESTS_GPU=0) runs everything that needs no GPU, duet_gpu_tests the custom and
// cudnn families.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>

#include "support/layer_driver.h"

namespace {
constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in CMakeLists.txt
}

int main(int argc, char** argv) {
  // A shell that starts a program in the background has it ignore SIGINT; nohup, SIGHUP.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  testing::InitGoogleTest(&argc, argv);
  duet::register_layer_tests(DUET_TESTS_GPU ? duet::Device::kGpu : duet::Device::kCpu);
  const int result = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (all.skipped_test_count() > 0) {
    std::printf("%d of %d tests were skipped%s%s\n", all.skipped_test_count(),
                all.test_to_run_count(), DUET_TESTS_GPU && !duet::gpu_available() ? ": " : "",
                DUET_TESTS_GPU ? duet::gpu_missing_reason().c_str() : "");
  }
  // Without a GPU only the checks of the layers themselves ran: that counts as skipped, not as
  // passed.
  const bool without_gpu = DUET_TESTS_GPU && !duet::gpu_available();
  return result == 0 && without_gpu ? kSkipped : result;
}
