// duet_tests (DUET_TESTS_GPU=0) runs everything that needs no GPU, duet_gpu_tests the custom and
// cudnn families.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <string_view>

#include "support/layer_driver.h"
#include "support/test_summary.h"

namespace {
constexpr int kSkipped = 77;  // SKIP_RETURN_CODE in CMakeLists.txt
}

int main(int argc, char** argv) {
  // A shell that starts a program in the background has it ignore SIGINT; nohup, SIGHUP.
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
  // The process of a death test has no use for the layers' tests, and must not have asked for a GPU,
  // as some implementations do to tell what they support. GoogleTest takes the flag away.
  const bool death_test = std::any_of(argv, argv + argc, [](std::string_view argument) {
    return argument.starts_with("--gtest_internal_run_death_test");
  });
  testing::InitGoogleTest(&argc, argv);
  if (!death_test) {
    duet::register_layer_tests(DUET_TESTS_GPU ? duet::Device::kGpu : duet::Device::kCpu);
    duet::write_test_summary();
  }
  const int result = RUN_ALL_TESTS();
  // Without a GPU only the checks of the layers themselves ran: that counts as skipped, not as
  // passed.
  const bool without_gpu = DUET_TESTS_GPU && !duet::gpu_available();
  return result == 0 && without_gpu ? kSkipped : result;
}
