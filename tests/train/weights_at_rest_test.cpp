// What nets prepare of their weights for inference is made anew when the weights change, and only then.
#include <gtest/gtest.h>

#include <algorithm>

#include "layers/linear/linear.h"
#include "support/double_base.h"
#include "support/network.h"
#include "support/text.h"
#include "support/training_cases.h"
#include "train/evaluate/predictor.h"

namespace duet {
namespace {

int preparations = 0;

/// Forward at rest reads a copy of the weights.
class RestingDouble : public DoubleBase {
 public:
  RestingDouble(std::unique_ptr<Implementation> sound, const LinearProblem& problem)
      : DoubleBase(std::move(sound)), bytes_(problem.w_desc().bytes()) {}

  std::vector<PortUse> ports(Pass pass, bool inference) const override {
    return prepared_for(pass, inference, [this] { return bytes_; });
  }
  void prepare_weights(const Run& run, const LayerTensors& t) override {
    ++preparations;
    run.context.queue_copy(run.ports.prepared_w.memory, t.w[0].memory, bytes_);
  }
  void run(Pass pass, const Run& run, const LayerTensors& t) override {
    EXPECT_EQ(run.inference, !run.training);
    EXPECT_EQ(run.inference, bool(run.ports.prepared_w));
    LayerTensors tensors = t;
    if (run.inference) tensors.w[0].memory = run.ports.prepared_w.memory;
    sound_->run(pass, run, tensors);
  }

 private:
  const size_t bytes_;
};

std::unique_ptr<Implementation> make_resting(const LinearProblem& problem, Context& context) {
  return std::make_unique<RestingDouble>(make_sound(linear_impls(), problem, context), problem);
}

struct InListOfLinear : InList<LinearProblem> {
  InListOfLinear()
      : InList(linear_impls(), {{double_id(Device::kCpu, "resting"), supports_all, make_resting}}) {
  }
};

std::string resting(const std::string& network) {
  return changed(network, {{"type: linear,", "type: linear, backend: cpu_double_resting,"}});
}

TEST(WeightsAtRest, AreNeverStale) {
  const InListOfLinear doubles;
  for (const auto network : {small_training, averaged_training}) {
    TestTraining plain(network("cpu")), at_rest(resting(network("cpu")));
    for (int i = 0; i < 3; ++i) {
      plain.training->step();
      at_rest.training->step();
      EXPECT_EQ(at_rest.training->evaluate().loss, plain.training->evaluate().loss) << i;
      EXPECT_EQ(at_rest.training->evaluation().run().loss, plain.training->evaluation().run().loss);
    }
    at_rest.training->weights().initialise(5);
    plain.training->weights().initialise(5);
    EXPECT_EQ(at_rest.training->evaluation().run().loss, plain.training->evaluation().run().loss);
    for (Weights* weights : {&at_rest.training->weights(), &plain.training->weights()}) {
      const Parameter last = weights->parameters().rbegin()[1];
      std::vector<float> values = weights->read(last);
      values[0] += 1;
      weights->write(last, values);
    }
    EXPECT_EQ(at_rest.training->evaluation().run().loss, plain.training->evaluation().run().loss);
  }
}

TEST(WeightsAtRest, ArePreparedOnceAsLongAsTheyStay) {
  const InListOfLinear doubles;
  TestTraining t(resting(small_training("cpu")));
  t.training->step();
  preparations = 0;
  t.training->evaluation().run();
  t.training->evaluation().run();
  EXPECT_EQ(preparations, 1);
  Predictor predictor(t.network.layers, t.training->weights(), t.context);
  const DatasetInfo info = t.data;
  const std::vector<uint8_t> images(3 * 16 * 16, 7);
  const std::vector<float> before = predictor.logits(info, images);
  EXPECT_EQ(predictor.logits(info, images), before);
  EXPECT_EQ(preparations, 2);  // each net has its own
  t.training->step();
  EXPECT_NE(predictor.logits(info, images), before);
  EXPECT_EQ(preparations, 3);
}

}  // namespace
}  // namespace duet
