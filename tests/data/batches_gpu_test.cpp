// Batches on the GPU have the bits of batches on the CPU.
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "data/batches.h"
#include "device/device.h"
#include "device/step_graph.h"
#include "support/gpu_test.h"
#include "support/small_split.h"

namespace duet {
namespace {

struct Arm {
  explicit Arm(Device device, const DatasetInfo& info, const Split& split, BatchOptions options,
               Layout layout, DType dtype = DType::kFloat32)
      : context(device),
        batches(context, info, split, options),
        x_desc{{options.batch, info.channels, info.height, info.width}, dtype, layout},
        labels_desc{{options.batch}, DType::kInt32},
        step(device, sizeof(uint64_t)),
        x(device, x_desc.bytes()),
        labels(device, labels_desc.bytes()) {}

  void set_step(uint64_t value) {
    copy_bytes(step.data(), step.device(), &value, Device::kCpu, sizeof value);
    fill_bytes(x.data(), x.device(), 0xFF, x.bytes());
    fill_bytes(labels.data(), labels.device(), 0x77, labels.bytes());
  }
  void gather() {
    batches.gather(context, static_cast<const uint64_t*>(step.data()), {x_desc, x.data()},
                   {labels_desc, labels.data()});
  }
  // Pixels and labels as bits.
  std::vector<uint16_t> result() {
    context.synchronize();
    std::vector<uint16_t> bits((x.bytes() + labels.bytes()) / 2);
    copy_bytes(bits.data(), Device::kCpu, x.data(), x.device(), x.bytes());
    copy_bytes(bits.data() + x.bytes() / 2, Device::kCpu, labels.data(), labels.device(),
               labels.bytes());
    return bits;
  }

  Context context;
  Batches batches;
  TensorDesc x_desc, labels_desc;
  Buffer step, x, labels;
};

class BatchesGpu : public GpuTest {};

class BatchesGpuIn : public BatchesGpu, public testing::WithParamInterface<DType> {};
INSTANTIATE_TEST_SUITE_P(Storage, BatchesGpuIn, testing::Values(DType::kFloat32, DType::kBFloat16));

TEST_P(BatchesGpuIn, HaveTheBitsOfTheCpu) {
  const int64_t shapes[][3] = {{1, 28, 28}, {3, 8, 8}, {3, 5, 5},
                               {1, 3, 7},   {2, 1, 1}, {3, 96, 96}};
  for (const auto& [channels, height, width] : shapes) {
    const DatasetInfo info = make_info(channels, height, width);
    const Split split = make_split(info, 103);
    for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      for (const bool shuffle : {false, true}) {
        for (const int64_t batch : {1, 10, 64}) {
          const BatchOptions options{.batch = batch, .seed = 5, .shuffle = shuffle};
          Arm cpu(Device::kCpu, info, split, options, layout, GetParam());
          Arm gpu(Device::kGpu, info, split, options, layout, GetParam());
          const uint64_t epoch = static_cast<uint64_t>(cpu.batches.per_epoch());
          for (uint64_t step : {uint64_t{0}, epoch - 1, epoch, 3 * epoch + epoch / 2,
                                (uint64_t{1} << 32) - 1, (uint64_t{1} << 40) + 7}) {
            for (Arm* arm : {&cpu, &gpu}) {
              arm->set_step(step);
              arm->gather();
            }
            ASSERT_EQ(cpu.result(), gpu.result())
                << gpu.x_desc.to_string() << " shuffle " << shuffle << " step " << step;
          }
        }
      }
    }
  }
}

TEST_F(BatchesGpu, AGraphFollowsTheStep) {
  const DatasetInfo info = make_info(1, 28, 28);
  const Split split = make_split(info, 1000);
  const BatchOptions options{.batch = 64, .seed = 1, .shuffle = true};
  Arm cpu(Device::kCpu, info, split, options, Layout::kNCHW);
  Arm gpu(Device::kGpu, info, split, options, Layout::kNCHW);
  gpu.set_step(0);
  gpu.gather();
  StepGraph graph(gpu.context, [&] { gpu.gather(); });
  for (uint64_t step : {0, 1, 14, 15, 16, 1000}) {
    cpu.set_step(step);
    cpu.gather();
    gpu.set_step(step);
    graph.launch();
    ASSERT_EQ(cpu.result(), gpu.result()) << "step " << step;
  }
}

}  // namespace
}  // namespace duet
