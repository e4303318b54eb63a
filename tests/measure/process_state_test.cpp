// What implementations leave behind is found, undone and named.
#include "measure/process_state.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cfenv>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "core/error.h"
#include "layers/activation/activation.h"
#include "measure/examine.h"
#include "measure/measure_pass.h"
#include "support/case_rig.h"
#include "support/double_base.h"
#include "support/text.h"

namespace duet {
namespace {

TEST(ProcessState, SeesNothingWhereNothingChanged) {
  Context context(Device::kCpu);
  ProcessState state(context);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, RestoresTheRoundingMode) {
  Context context(Device::kCpu);
  ProcessState state(context);
  std::fesetround(FE_UPWARD);
  EXPECT_EQ(state.restore(), "another rounding mode");
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, NamesOpenFiles) {
  Context context(Device::kCpu);
  ProcessState state(context);
  std::vector<int> files;
  for (int i = 0; i < 100; ++i) files.push_back(open("/dev/null", O_RDONLY));
  EXPECT_EQ(state.restore(), "100 open files");
  for (int file : files) close(file);
  EXPECT_EQ(state.restore(), "");
}

TEST(ProcessState, AThreadThatIsAboutToEndIsNoFault) {
  Context context(Device::kCpu);
  for (int i = 0; i < 8; ++i) {  // it is not seen every time
    ProcessState state(context);
    std::atomic<bool> started = false;
    std::thread thread([&] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
      started = true;
      while (std::chrono::steady_clock::now() < until) {
      }
    });
    while (!started) {
    }
    EXPECT_EQ(state.restore(), "");
    thread.join();
  }
}

TEST(ProcessState, NamesAThreadThatKeepsComputing) {
  Context context(Device::kCpu);
  ProcessState state(context);
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    while (!stop) {
    }
  });
  std::string found;  // on a machine that gives the thread its share at least once
  for (int i = 0; i < 100 && found.empty(); ++i) found = state.restore();
  EXPECT_TRUE(has(found, "a thread that keeps computing"));
  stop = true;
  thread.join();
  EXPECT_EQ(state.restore(), "");
}

enum class RudeTrick { kRounds, kThrowsInt, kThrowsForeign };

/// cpu_reference of ReLU, and a trick.
class Rude : public DoubleBase {
 public:
  Rude(RudeTrick trick, std::unique_ptr<Implementation> sound)
      : DoubleBase(std::move(sound)), trick_(trick) {}
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    sound_->run(pass, run, tensors);
    if (trick_ == RudeTrick::kRounds) std::fesetround(FE_DOWNWARD);
    if (trick_ == RudeTrick::kThrowsInt) throw 7;
    if (trick_ == RudeTrick::kThrowsForeign) throw std::range_error("beyond");
  }

 private:
  const RudeTrick trick_;
};

template <RudeTrick kTrick>
std::unique_ptr<Implementation> make_rude(const ActivationProblem& problem, Context& context) {
  return std::make_unique<Rude>(kTrick,
                                make_sound(relu_impls(), "cpu_reference", problem, context));
}

TEST(ProcessState, ExaminationsNameWhoLeavesOrThrowsWhat) {
  const InList<ActivationProblem> listed(
      relu_impls(),
      {{"cpu_double_rounds", supports_all, make_rude<RudeTrick::kRounds>},
       {"cpu_double_throws_int", supports_all, make_rude<RudeTrick::kThrowsInt>},
       {"cpu_double_throws_foreign", supports_all, make_rude<RudeTrick::kThrowsForeign>}});
  const auto layer = make_layer("relu", {.name = "rude", .x = {{{16, 20}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  Context context(Device::kCpu);
  const auto found =
      measure_pass({{layer.get(), "cpu_double_rounds"},
                    {layer.get(), "cpu_double_throws_int"},
                    {layer.get(), "cpu_double_throws_foreign"},
                    {layer.get(), "cpu_reference"}},
                   Pass::kForward, check_data, context,
                   {.timing = {.block_seconds = 1e-3, .rounds = 1, .most_rounds = 1}});
  const auto last_fault = [&](size_t i) { return found[i].examination.faults.back(); };
  ASSERT_FALSE(found[0].examination.passed());
  EXPECT_EQ(last_fault(0).kind, FaultKind::kChangesProcess) << last_fault(0).text;
  EXPECT_TRUE(has(last_fault(0).text, "another rounding mode"));
  EXPECT_EQ(last_fault(1).text, "failed: it threw what is no std::exception");
  EXPECT_EQ(last_fault(2).text, "failed: beyond");
  for (size_t i = 0; i < 3; ++i) EXPECT_FALSE(found[i].warm);
  EXPECT_TRUE(found[3].examination.passed());  // the others' tricks are not its own
  EXPECT_TRUE(found[3].warm);
}

}  // namespace
}  // namespace duet
