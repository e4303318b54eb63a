#include "measure/check/check_set.h"

#include <gtest/gtest.h>

#include "measure/examine/examine.h"
#include "measure/examine/examine_checks.h"
#include "support/case_rig.h"
#include "support/layer_case.h"

namespace duet {
namespace {

std::unique_ptr<Layer> small_linear(Math math = Math::kFP32) {
  return make_layer("linear", {.name = "small",
                               .keys = {{"out_features", "5"}},
                               .x = {{{4, 6}}},
                               .options = {.math = math}});
}

TEST(CheckSet, StartsRigsFromItsDataAndIsWhatTheyAreHeldTo) {
  const auto layer = small_linear();
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  const CheckSets sets(*layer, Pass::kForward, check_data, Device::kCpu);
  LayerRig rig(*layer, "cpu_reference", {Pass::kForward}, test_context(Device::kCpu), {});
  for (const CheckSet* set : {&sets.first, &*sets.other}) {
    rig.load(set->data());
    EXPECT_EQ(values_of(rig.read_by(Pass::kForward)[0], Device::kCpu),
              (set == &sets.first ? check_data.data : check_data.other_data).x[0]);
    run_through(rig, *set);
    EXPECT_TRUE(all_agree(hold_to(*set, rig)));
    EXPECT_FALSE(all_agree(hold_to(set == &sets.first ? *sets.other : sets.first, rig)));
    EXPECT_EQ(rig.damage(), "");
    const std::vector<Buffer> snapshot = rig.make_snapshot(Pass::kForward);
    rig.queue_snapshot(Pass::kForward, snapshot);
    EXPECT_TRUE(rig.holds(Pass::kForward, snapshot));
    rig.written_by(Pass::kForward)[0].data<float>()[7] += 1;
    EXPECT_FALSE(rig.holds(Pass::kForward, snapshot));
    EXPECT_FALSE(all_agree(hold_to(*set, rig)));
    rig.read_by(Pass::kForward)[0].data<float>()[1] += 1;
    EXPECT_NE(rig.damage(), "");
  }
}

TEST(CheckSet, HasTheReferencesOutputForABackwardPass) {
  const auto layer = small_linear();
  const CheckData check_data = make_check_data(*layer, random_data(*layer, 1), {}, layer->passes());
  const CheckSet set(*layer, Pass::kBackwardData, check_data.data, check_data.expected,
                     Device::kCpu);
  ASSERT_EQ(set.y().size(), 1u);
  EXPECT_EQ(set.y()[0].bytes(), layer->outputs()[0].bytes());
}

TEST(CheckSet, OfOneTypeIsRefusedByARigOfAnother) {
  const auto layer = small_linear(), narrow = small_linear(Math::kBF16);
  const auto data =
      std::make_shared<const StoredData>(*narrow, random_data(*narrow, 1), Device::kCpu);
  LayerRig rig(*layer, "cpu_reference", {Pass::kForward}, test_context(Device::kCpu), {});
  EXPECT_THROW(rig.load(data), std::logic_error);
}

TEST(NeighbourReferences, AreComputedOnceForAPassAndAKindOfData) {
  using Kind = NeighbourReferences::Kind;
  const auto layer = small_linear();
  const auto all = neighbours(*layer);
  ASSERT_GE(all.size(), 2u);
  NeighbourReferences references;
  const auto* first = &references.of(*all[0], Kind::kRandom, {}, Pass::kForward);
  EXPECT_NE(first, &references.of(*all[1], Kind::kRandom, {}, Pass::kForward));
  EXPECT_NE(first, &references.of(*all[0], Kind::kHard, {}, Pass::kForward));
  EXPECT_NE(first, &references.of(*all[0], Kind::kRandom, {}, Pass::kBackwardData));
  EXPECT_EQ(first, &references.of(*all[0], Kind::kRandom, {}, Pass::kForward));
}

TEST(RandomData, DiffersInEveryTensorPartAndSeed) {
  const auto layer = make_layer(
      "linear", {.name = "large", .keys = {{"out_features", "300"}}, .x = {{{300, 1000}}}});
  const LayerData data = random_data(*layer, 1), again = random_data(*layer, 1),
                  other = random_data(*layer, 2);
  EXPECT_EQ(data.x, again.x);
  EXPECT_NE(data.x, other.x);
  const std::vector<double>& x = data.x[0];
  double sum = 0, square = 0;
  for (double value : x) {
    sum += value;
    square += value * value;
  }
  const auto count = static_cast<double>(x.size());
  EXPECT_NEAR(sum / count, 0, 0.01);
  EXPECT_NEAR(square / count, 1, 0.01);
  constexpr int64_t kPart = 1 << 16;  // drawn by generators of their own
  EXPECT_FALSE(std::equal(x.begin(), x.begin() + 1000, x.begin() + kPart));
}

}  // namespace
}  // namespace duet
