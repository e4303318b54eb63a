// Prediction on the GPU: a replayed graph gives the bits of the first batches, and never stale weights.
#include <gtest/gtest.h>

#include "support/gpu_test.h"
#include "support/network.h"
#include "support/training_cases.h"
#include "train/evaluate/predictor.h"

namespace duet {
namespace {

class PredictorOnGpu : public GpuTest {};

TEST_F(PredictorOnGpu, AGraphGivesTheBitsOfTheFirstBatches) {
  for (const std::string head : {"", "math: bf16\n"}) {
    TestTraining t(head + small_training("custom"));
    const std::vector<uint8_t> images(t.data.validation.images.begin(),
                                      t.data.validation.images.begin() + 100 * 16 * 16);
    std::vector<uint8_t> repeated;
    for (int i = 0; i < 5; ++i) repeated.insert(repeated.end(), images.begin(), images.end());
    Predictor predictor(t.network.layers, t.training->weights(), t.context);
    for (int step = 0; step < 3; ++step) {
      const std::vector<float> all = predictor.logits(t.data, repeated);
      const std::vector<float> fresh =
          Predictor(t.network.layers, t.training->weights(), t.context).logits(t.data, images);
      ASSERT_EQ(all.size(), 5 * fresh.size());
      for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_EQ(all[i], fresh[i % fresh.size()]) << head << " " << step << " " << i;
      }
      t.training->step();
    }
  }
}

}  // namespace
}  // namespace duet
