#include "support/examine_cases.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <list>

#include "layers/layer_cases.h"
#include "measure/time/measure_pass.h"
#include "support/case_rig.h"
#include "support/doubles.h"

namespace duet {
namespace {

// On the CPU blocks of one call, as on a slow machine: a count of calls must not fool it there.
TimingPlan brief(Device device) {
  return {.block_seconds = device == Device::kCpu ? 1e-9 : 1e-2, .rounds = 2, .most_rounds = 2};
}

// Sums long enough for a few bits of one number to be within their limit.
LayerCase linear_case() {
  return {.name = "doubles", .keys = {{"out_features", "64"}}, .x = {{{kBenchedBatch, 300}}}};
}

LayerCase conv2d_case() {
  return {.name = "doubles",
          .keys = {{"out_channels", "12"}, {"kernel", "3"}, {"padding", "1"}},
          .x = {{{kBenchedBatch, 16, 8, 7}}}};
}

std::string texts(const Examination& examination) {
  std::string text;
  for (const Fault& fault : examination.faults) {
    text += std::string(to_string(fault.kind)) + ": " + fault.text + "\n";
  }
  return text;
}

}  // namespace

void check_doubles_are_caught(Device device) {
  const Doubles listed(device);
  const std::vector<DoubleInfo>& doubles = listed.infos();
  const std::pair<const char*, LayerCase> cases[] = {{"linear", linear_case()},
                                                     {"conv2d", conv2d_case()}};
  for (const auto& [type, c] : cases) {
    const auto layer = make_layer(type, c);
    const CheckData check_data =
        make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
    for (Pass pass : layer->passes()) {
      std::vector<Candidate> candidates;
      for (const DoubleInfo& info : doubles) candidates.push_back({layer.get(), info.id});
      const auto results = measure_pass(candidates, pass, check_data, test_context(device),
                                        {.timing = brief(device)});
      int cheats = 0, caught = 0, idle = 0;  // doubles; the last remembered nothing
      for (size_t i = 0; i < doubles.size(); ++i) {
        if (pass == Pass::kForward && !doubles[i].in_forward) continue;
        const std::string where =
            std::string(type) + " " + std::string(to_string(pass)) + " " + doubles[i].id + "\n";
        const auto& faults = results[i].examination.faults;
        const bool remembers_nothing = doubles[i].fault == FaultKind::kRemembers &&
                                       results[i].warm &&
                                       results[i].warm->summary().p20 >= kComputingRememberer;
        ++cheats;
        caught += !faults.empty();
        idle += faults.empty() && remembers_nothing;
        if (faults.empty() && remembers_nothing) continue;
        EXPECT_FALSE(faults.empty()) << where << "was not caught";
        if (faults.empty()) continue;
        EXPECT_EQ(to_string(faults.front().kind), to_string(doubles[i].fault))
            << where << texts(results[i].examination);
        EXPECT_FALSE(results[i].warm || results[i].cold) << where << "got a time";
      }
      std::printf("%s %s: %d of %d doubles caught, %d gained nothing\n", type,
                  std::string(to_string(pass)).c_str(), caught, cheats, idle);
    }
  }
}

namespace {

/// Writes far from its output, beyond what guards of a cache line or a page would show.
class FarWriter : public DoubleBase {
 public:
  FarWriter(std::unique_ptr<Implementation> sound, int64_t distance)
      : DoubleBase(std::move(sound)), distance_(distance) {}
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    sound_->run(pass, run, t);
    const Tensor& out = output(pass, t);
    const int64_t at = distance_ < 0 ? distance_ : static_cast<int64_t>(out.bytes()) + distance_;
    run.context.queue_fill(static_cast<char*>(out.memory) + at, 0, 64);
  }

 private:
  const int64_t distance_;
};

template <int64_t kDistance>
std::unique_ptr<Implementation> make_far_writer(const LinearProblem& problem, Context& context) {
  return std::make_unique<FarWriter>(make_sound(linear_impls(), problem, context), kDistance);
}

/// What an implementation does with memory of its own, or else.
enum class Habit {
  kLeaks,
  kLeaksLittle,
  kLeaksACall,       // 1 KiB, on the CPU
  kLeaksNowAndThen,  // as other processes on a busy GPU take memory
  kTakesWhenPrepared,
  kTakesInFirstCall,
  kExpectsZeros,
  kIsFrugal,
  kErrsRarely,  // in one call of 100,000
};

class MemoryTaker : public DoubleBase {
 public:
  MemoryTaker(std::unique_ptr<Implementation> sound, Habit habit)
      : DoubleBase(std::move(sound)), habit_(habit) {}
  void prepare(Pass pass, Context& context) override {
    sound_->prepare(pass, context);
    if (habit_ == Habit::kLeaks || habit_ == Habit::kLeaksLittle) {
      static auto* leaked = new std::vector<Buffer>;  // outlives the GPU's driver
      leaked->emplace_back(context.device(), leak(context) / (habit_ == Habit::kLeaks ? 1 : 32));
    }
    static int prepared =
        0;  // 2 or 4 times a look at the memory: at most 3 of 4 in a row see it grow
    if (habit_ == Habit::kLeaksNowAndThen && prepared++ % 14 < 6) {
      static auto* leaked = new std::vector<Buffer>;
      leaked->emplace_back(context.device(), leak(context));
    }
    if (habit_ == Habit::kTakesWhenPrepared) taken_ = Buffer(context.device(), much(context));
    if (habit_ == Habit::kExpectsZeros) taken_ = Buffer(context.device(), 1 << 20);
    if (habit_ == Habit::kIsFrugal) taken_ = Buffer(context.device(), 1 << 20);
  }
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    if (habit_ == Habit::kTakesInFirstCall && !taken_.data()) {
      taken_ = Buffer(run.context.device(), much(run.context));
    }
    sound_->run(pass, run, t);
    const Tensor& out = output(pass, t);
    if (habit_ == Habit::kLeaksACall) {
      static auto* leaked = new std::list<std::string>;
      leaked->emplace_back(1 << 10, 'x');
    }
    if (habit_ == Habit::kErrsRarely && ++calls_ % 100'000 == 0) {
      run.context.queue_fill(out.memory, 0, 4);
    }
    if (habit_ != Habit::kExpectsZeros) return;
    run.context.queue_copy(out.memory, taken_.data(), 4);
    run.context.queue_copy(taken_.data(), static_cast<char*>(out.memory) + 4, 4);
  }

 private:
  static size_t much(const Context& context) {
    return size_t{context.device() == Device::kGpu ? 128u : 16u} << 20;
  }
  static size_t leak(const Context& context) {
    return context.device() == Device::kGpu ? size_t{8} << 20 : size_t{64} << 10;
  }

  const Habit habit_;
  Buffer taken_;
  int calls_ = 0;
};

template <Habit kHabit>
std::unique_ptr<Implementation> make_memory_taker(const LinearProblem& problem, Context& context) {
  return std::make_unique<MemoryTaker>(make_sound(linear_impls(), problem, context), kHabit);
}

using MakeLinear = std::unique_ptr<Implementation> (*)(const LinearProblem&, Context&);

/// Examines every pass of what `make` makes; `kind` is the fault's, or empty for a sound one.
void check_linear(Device device, MakeLinear make, std::string_view kind,
                  std::string_view backward_kind) {
  const std::string_view id = double_id(device, "of_linear");
  const InList<LinearProblem> listed(linear_impls(), {{id, supports_all, make}});
  const auto layer = make_layer("linear", linear_case());
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  for (Pass pass : layer->passes()) {
    const Examination found = check(*layer, id, pass, check_data, test_context(device));
    EXPECT_EQ(found.passed() ? "" : to_string(found.faults[0].kind),
              pass == Pass::kForward ? kind : backward_kind)
        << to_string(pass) << ": " << texts(found);
  }
}

void check_linear(Device device, MakeLinear make, std::string_view kind) {
  check_linear(device, make, kind, kind);
}

}  // namespace

void check_far_writes_are_caught(Device device) {
  check_linear(device, make_far_writer<4 << 10>, "writes outside");
  check_linear(device, make_far_writer<250 << 10>, "writes outside");
  check_linear(device, make_far_writer<-(100 << 10)>, "writes outside");
}

void check_memory_is_watched(Device device) {
  check_linear(device, make_memory_taker<Habit::kLeaks>, "takes memory");
  if (device == Device::kCpu) {
    check_linear(device, make_memory_taker<Habit::kLeaksACall>, "takes memory");
  }
  check_linear(device, make_memory_taker<Habit::kTakesWhenPrepared>, "takes memory");
  check_linear(device, make_memory_taker<Habit::kTakesInFirstCall>, "takes memory");
  check_linear(device, make_memory_taker<Habit::kIsFrugal>, "");
  check_linear(device, make_memory_taker<Habit::kLeaksNowAndThen>, "");
}

void check_what_gets_by(Device device) {
  check_linear(device, make_memory_taker<Habit::kLeaksLittle>, "");
  check_linear(device, make_memory_taker<Habit::kErrsRarely>, "");
}

void check_fresh_memory_is_filled(Device device) {
  // On a GPU it is filled with NaN, which forward hands out; a backward pass finds forward's
  // values.
  const bool cpu = device == Device::kCpu;
  check_linear(device, make_memory_taker<Habit::kExpectsZeros>, cpu ? "wrong" : "half written",
               "wrong");
}

void check_sound_ones_pass(Device device, bool bf16) {
  for (const CasesOfType& row : layer_cases()) {
    size_t tried = 0;
    for (const LayerCase& each : row.cases) {
      if (each.exact || each.forward_only || each.data == Data::kNonFinite) continue;
      ++tried;  // the first ones are tiny; a GPU's memory is watched, so that its tests run alone
      const bool left_out = bf16 ? tried != 3 : device == Device::kGpu ? tried != 2 : tried > 3;
      if (left_out) continue;
      const LayerCase c = bf16 ? in_bf16(each) : each;
      const auto layer = make_layer(row.type, c);
      if (layer->passes().empty()) continue;
      const CheckData check_data =
          make_check_data(*layer, random_data(*layer, 1), c.situation(), layer->passes());
      for (const ImplInfo& info : layer->implementations()) {
        if (device_of(family_of(info.id)) != device) continue;
        for (Pass pass : layer->passes()) {
          if (layer->unsupported(info.id, pass)) continue;
          const Examination result = check(*layer, info.id, pass, check_data, test_context(device));
          EXPECT_TRUE(result.passed())
              << row.type << " " << info.id << " " << to_string(pass) << ", case " << c.name << ", "
              << layer->problem_text() << "\n"
              << texts(result);
        }
      }
    }
  }
}

}  // namespace duet
