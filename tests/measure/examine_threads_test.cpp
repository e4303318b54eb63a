// Kernels whose results depend on threads or on the calls before, as long as nobody looks.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/openmp.h"
#include "layers/linear/linear.h"
#include "layers/softmax/softmax.h"
#include "measure/examine/changing_calls.h"
#include "measure/time/measure_pass.h"
#include "support/slip.h"
#include "support/text.h"

namespace duet {
namespace {

class ExamineThreads : public testing::Test {
 protected:
  void SetUp() override {
    if (!dlopen("libgomp.so.1", RTLD_LAZY | RTLD_LOCAL)) GTEST_SKIP() << "there is no libgomp";
    before_ = openmp::threads();
    openmp::set_threads(2);
  }
  void TearDown() override { openmp::set_threads(before_); }

 private:
  int before_ = 0;
};

// Sums of two threads are added up; those of others are lost.
void adds_up_two(const LinearProblem&, Pass pass, const Run&, const LayerTensors& t) {
  std::atomic<int> threads = 0;
  openmp::in_every_thread([](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &threads);
  if (threads != 2) Slip<LinearProblem>::output(pass, t).data<float>()[0] += 1;
}

TEST_F(ExamineThreads, OneAndFourAreTried) {
  const SlipInList<LinearProblem> listed(linear_impls(), adds_up_two);
  const auto layer = make_layer("linear", {.keys = {{"out_features", "32"}}, .x = {{{16, 64}}}});
  for (Pass pass : layer->passes()) {
    const std::string fault = fault_of_slip(*layer, pass);
    EXPECT_TRUE(has(fault, "some threads only: depends on threads: with 1 of OpenMP")) << fault;
  }
}

// Each thread of a team leaves its part of a sum and, after as long as the others take to do so when
// all have a core, reads theirs: the barrier between the two is missing.
void forgets_a_barrier(const SoftmaxProblem&, Pass pass, const Run&, const LayerTensors& t) {
  struct Sums {
    std::atomic<int> begun{0}, left{0}, least{1 << 20};
  } sums;
  openmp::in_every_thread(
      [](void* data) {
        auto& sums = *static_cast<Sums*>(data);
        ++sums.begun;
        ++sums.left;
        const auto start = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(100)) {
        }
        const int seen = sums.left;
        int least = sums.least;
        while (seen < least && !sums.least.compare_exchange_weak(least, seen)) {
        }
      },
      &sums);
  if (sums.least < sums.begun) Slip<SoftmaxProblem>::output(pass, t).data<float>()[0] += 1;
}

TEST_F(ExamineThreads, AMissingBarrierIsFoundWhereCoresAreFew) {
  openmp::set_threads(1);  // as it is right, so that nothing is found before
  const SlipInList<SoftmaxProblem> listed(softmax_impls(), forgets_a_barrier);
  const auto layer = make_layer("softmax", {.x = {{{16, 20}}}});
  for (Pass pass : layer->passes()) {
    const std::string fault = fault_of_slip(*layer, pass);
    EXPECT_TRUE(has(fault, "some threads only: depends on threads: with ")) << fault;
  }
}

TEST_F(ExamineThreads, LeaveTheNumberAsItWas) {
  const auto layer = make_layer("softmax", {.x = {{{16, 20}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (Pass pass : layer->passes()) {
    EXPECT_TRUE(
        check(*layer, "cpu_reference", pass, check_data, test_context(Device::kCpu)).passed());
  }
  EXPECT_EQ(openmp::threads(), 2);
}

// ---- memory of calls ----

/// Takes 2 us unless its input is that of the call before, whose result it then has kept: less than
/// calls on changing data may take more when it is examined.
class RemembersLittle : public DoubleBase {
 public:
  using DoubleBase::DoubleBase;
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    const auto start = std::chrono::steady_clock::now();
    const Tensor& x = pass == Pass::kForward ? t.x[0] : t.dy[0];
    const Tensor& out = output(pass, t);
    if (!out) return sound_->run(pass, run, t);  // a gradient that nobody wants
    auto& [key, kept] = known_[pass == Pass::kForward];
    const bool known = key.size() == x.bytes() && std::memcmp(key.data(), x.memory, x.bytes()) == 0;
    if (known) {
      std::memcpy(out.memory, kept.data(), out.bytes());
      return;
    }
    sound_->run(pass, run, t);
    const char* from = static_cast<const char*>(x.memory);
    key.assign(from, from + x.bytes());
    from = static_cast<const char*>(out.memory);
    kept.assign(from, from + out.bytes());
    while (std::chrono::steady_clock::now() - start < std::chrono::nanoseconds(2500)) {
    }
  }

 private:
  std::pair<std::vector<char>, std::vector<char>> known_[2];
};

TEST(ExamineCalls, SmallOnesThatAreRememberedGetNoTime) {
  const InList<SoftmaxProblem> listed(
      softmax_impls(),
      {{"cpu_double_remembers_little", supports_all,
        [](const SoftmaxProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
          return std::make_unique<RemembersLittle>(
              make_sound(softmax_impls(), "cpu_reference", problem, context));
        }}});
  const auto layer = make_layer("softmax", {.x = {{{4, 6}}}});
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (Pass pass : layer->passes()) {
    const auto results =
        measure_pass({{layer.get(), "cpu_double_remembers_little"}, {layer.get(), "cpu_reference"}},
                     pass, check_data, test_context(Device::kCpu),
                     {.timing = {.block_seconds = 1e-3, .rounds = 7, .most_rounds = 7}});
    ASSERT_FALSE(results[0].examination.passed());
    const Fault& fault = results[0].examination.faults[0];
    EXPECT_EQ(to_string(fault.kind), "remembers") << fault.text;
    EXPECT_FALSE(results[0].warm);
    for (const Fault& wrong : results[1].examination.faults) ADD_FAILURE() << wrong.text;
    EXPECT_TRUE(results[1].warm);
  }
}

TEST(ExamineCalls, EndWithTheDataAsTheyWere) {
  const auto layer = make_layer("linear", {.keys = {{"out_features", "4"}}, .x = {{{3, 5}}}});
  std::vector<std::unique_ptr<LayerRig>> rigs;
  const LayerData data = random_data(*layer, 1);
  for (int i = 0; i < 3; ++i) {
    rigs.push_back(std::make_unique<LayerRig>(*layer, "cpu_reference",
                                              std::vector<Pass>{Pass::kForward},
                                              test_context(Device::kCpu), LayerSituation{}));
    rigs.back()->load(data);
    rigs.back()->run(Pass::kForward);
    rigs.back()->watch(Pass::kForward);
  }
  const std::vector<Buffer> before = rigs[0]->make_snapshot(Pass::kForward);
  rigs[0]->queue_snapshot(Pass::kForward, before);
  ChangingCalls calls(rigs, Pass::kForward);
  for (const int64_t count : {1, 6, 11, 12, 50, 1000}) {
    size_t queued = 0, first = 2;
    const auto queue = [&] { rigs[(first + queued++) % rigs.size()]->queue(Pass::kForward); };
    calls.seconds(queue, first, count);
    EXPECT_EQ(queued, static_cast<size_t>(count));
    for (const auto& rig : rigs) {
      EXPECT_EQ(rig->damage(), "");
      EXPECT_TRUE(rig->holds(Pass::kForward, before)) << count;
    }
  }
}

}  // namespace
}  // namespace duet
