// Batches on the GPU have the bits of batches on the CPU.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "core/mixed_labels.h"
#include "data/batch/batches.h"
#include "device/device.h"
#include "device/step_graph.h"
#include "support/gpu_test.h"
#include "support/small_split.h"

namespace duet {
namespace {

struct BatchesArm {
  explicit BatchesArm(Device device, const DatasetInfo& info, const Split& split,
                      BatchOptions options, Layout layout, DType dtype = DType::kFloat32)
      : context(device),
        batches(context, info, split, options),
        x_desc{{options.batch, info.channels, info.height, info.width}, dtype, layout},
        labels_desc((options.augment.mixup > 0.0 ? duet::mixed_labels_desc
                                                 : duet::labels_desc)(options.batch)),
        step(device, sizeof(uint64_t)),
        x(device, x_desc.bytes()),
        labels(device, labels_desc.bytes()) {}

  void set_step(uint64_t value) {
    copy_bytes(step.data(), step.device(), &value, Device::kCpu, sizeof value);
    fill_bytes(x.data(), x.device(), 0xFF, x.bytes());
    fill_bytes(labels.data(), labels.device(), 0x77, labels.bytes());
  }
  void gather() {
    batches.gather(context, static_cast<const uint64_t*>(step.data()),
                   {{"images", {x_desc, x.data()}}, {"labels", {labels_desc, labels.data()}}});
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
          BatchesArm cpu(Device::kCpu, info, split, options, layout, GetParam());
          BatchesArm gpu(Device::kGpu, info, split, options, layout, GetParam());
          const uint64_t epoch = static_cast<uint64_t>(cpu.batches.per_epoch());
          for (uint64_t step : {uint64_t{0}, epoch - 1, epoch, 3 * epoch + epoch / 2,
                                (uint64_t{1} << 32) - 1, (uint64_t{1} << 40) + 7}) {
            for (BatchesArm* arm : {&cpu, &gpu}) {
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

std::vector<Augment> augments() {
  std::vector<Augment> all(10);
  all[0].crop = 2;
  all[1].crop = 2;
  all[1].padding = Augment::Padding::kReflect;
  all[2].crop = 3;
  all[2].padding = Augment::Padding::kEdge;
  all[3].flip = 32768;
  all[4].flip = 65536;
  all[4].alternate = true;
  all[5].cutout = 3;
  all[6].resized_crop = true;
  all[6].area[0] = 0.08;
  all[6].area[1] = 1.0;
  all[6].log_ratio[0] = std::log(0.75);
  all[6].log_ratio[1] = std::log(4.0 / 3.0);
  all[7] = all[6];  // and everything else
  all[7].crop = 2;
  all[7].flip = 32768;
  all[7].cutout = 4;
  all[7].brightness = all[7].contrast = all[7].saturation = 128;
  all[8].mixup = 0.2;
  all[9] = all[7];
  all[9].mixup = 1.0;
  return all;
}

TEST_P(BatchesGpuIn, AugmentToTheBitsOfTheCpu) {
  for (const auto& [channels, height, width] :
       {std::array<int64_t, 3>{3, 32, 32}, {1, 28, 28}, {3, 5, 7}, {1, 4, 4}}) {
    const DatasetInfo info = make_info(channels, height, width);
    const Split split = make_split(info, 203);
    size_t number = 0;
    for (const Augment& augment : augments()) {
      for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
        const BatchOptions options{.batch = 64, .seed = 9, .shuffle = true, .augment = augment};
        BatchesArm cpu(Device::kCpu, info, split, options, layout, GetParam());
        BatchesArm gpu(Device::kGpu, info, split, options, layout, GetParam());
        for (const uint64_t step : {uint64_t{0}, uint64_t{2}, uint64_t{5}, uint64_t{1} << 40}) {
          for (BatchesArm* arm : {&cpu, &gpu}) {
            arm->set_step(step);
            arm->gather();
          }
          ASSERT_EQ(cpu.result(), gpu.result())
              << "augment " << number << " " << gpu.x_desc.to_string() << " step " << step;
        }
      }
      ++number;
    }
  }
}

TEST_P(BatchesGpuIn, NumbersHaveTheBitsOfTheCpu) {
  DatasetInfo info = make_info(5, 1, 1);
  info.numbers = true;
  Split split{100, {}, {}, {}};
  for (int i = 0; i < 500; ++i) split.numbers.push_back(std::sin(static_cast<float>(i)) * 1e3f);
  for (int i = 0; i < 100; ++i) split.labels.push_back(i % 10);
  for (const bool shuffle : {false, true}) {
    const BatchOptions options{.batch = 32, .seed = 2, .shuffle = shuffle};
    BatchesArm cpu(Device::kCpu, info, split, options, Layout::kNCHW, GetParam());
    BatchesArm gpu(Device::kGpu, info, split, options, Layout::kNCHW, GetParam());
    for (const uint64_t step : {0, 3, 7}) {
      for (BatchesArm* arm : {&cpu, &gpu}) {
        arm->set_step(step);
        arm->gather();
      }
      ASSERT_EQ(cpu.result(), gpu.result()) << "shuffle " << shuffle << " step " << step;
    }
  }
}

// The graph reads the batch that was staged before its launch, copies run beside it, and steps are
// queued faster than they run.
TEST_P(BatchesGpuIn, StreamedThroughAGraphTheyHaveTheBitsOfTheCpu) {
  const std::vector<Augment> some = {{}, augments().back()};
  for (const auto& [channels, height, width] :
       {std::array<int64_t, 3>{3, 96, 96}, {1, 28, 28}, {3, 5, 5}}) {
    const DatasetInfo info = make_info(channels, height, width);
    const Split split = make_split(info, 203);
    for (const Augment& augment : some) {
      for (const bool shuffle : {false, true}) {
        BatchOptions options{.batch = 64, .seed = 9, .shuffle = shuffle, .augment = augment};
        BatchesArm cpu(Device::kCpu, info, split, options, Layout::kNCHW, GetParam());
        options.stream = Stream::kMemory;
        BatchesArm gpu(Device::kGpu, info, split, options, Layout::kNCHW, GetParam());
        gpu.set_step(0);
        gpu.batches.stage(0);
        gpu.gather();
        StepGraph graph(gpu.context, [&] { gpu.gather(); });
        const Buffer steps(Device::kGpu, 64 * sizeof(uint64_t));
        std::vector<uint64_t> numbers(64);
        for (uint64_t i = 0; i < 64; ++i) numbers[i] = i < 40 ? i : i < 50 ? i - 30 : 1000 + i;
        copy_bytes(steps.data(), Device::kGpu, numbers.data(), Device::kCpu, steps.bytes());
        const size_t bytes = gpu.x.bytes();
        const Buffer results(Device::kGpu, 64 * bytes);
        for (size_t i = 0; i < 64; ++i) {
          gpu.batches.stage(numbers[i]);
          gpu.context.queue_copy(gpu.step.data(), steps.at(i * sizeof(uint64_t)), sizeof(uint64_t));
          graph.launch();
          gpu.context.queue_copy(results.at(i * bytes), gpu.x.data(), bytes);
        }
        gpu.context.synchronize();
        const std::vector<std::byte> found = download(results.data(), Device::kGpu, 64 * bytes);
        for (size_t i = 0; i < 64; ++i) {
          cpu.set_step(numbers[i]);
          cpu.gather();
          ASSERT_EQ(std::memcmp(cpu.x.data(), found.data() + i * bytes, bytes), 0)
              << gpu.x_desc.to_string() << " shuffle " << shuffle << " step " << numbers[i];
        }
      }
    }
  }
}

// All fields of batches of those steps, resident and streamed.
void expect_fields_of_the_cpu(const DatasetInfo& info, const Split& split, BatchOptions options,
                              DType dtype, const std::vector<uint64_t>& steps) {
  Context cpu(Device::kCpu), gpu(Device::kGpu);
  const Batches on_cpu(cpu, info, split, options);
  const Batches resident(gpu, info, split, options);
  options.stream = Stream::kMemory;
  const Batches streamed(gpu, info, split, options);
  FieldBuffers expected(info, options.batch, Device::kCpu, dtype);
  FieldBuffers found(info, options.batch, Device::kGpu, dtype);
  const Buffer step(Device::kGpu, sizeof(uint64_t));
  for (const uint64_t number : steps) {
    expected.fill(0x77);
    on_cpu.gather(cpu, &number, expected.tensors);
    copy_bytes(step.data(), Device::kGpu, &number, Device::kCpu, sizeof number);
    for (const Batches* const batches : {&resident, &streamed}) {
      found.fill(0x77);
      batches->stage(number);
      batches->gather(gpu, static_cast<const uint64_t*>(step.data()), found.tensors);
      gpu.synchronize();
      for (const std::string& name : found.names) {
        ASSERT_EQ(found.words(name), expected.words(name))
            << name << " " << batches->whereabouts() << " shuffle " << options.shuffle << " step "
            << number;
      }
    }
  }
}

TEST_P(BatchesGpuIn, RecordsHaveTheBitsOfTheCpu) {
  for (const auto& [channels, side] : {std::pair<int64_t, int64_t>{3, 5}, {1, 28}}) {
    DatasetInfo info = make_info(channels, side, side);
    Split split = make_split(info, 103);
    add_records(info, split);
    for (const bool shuffle : {false, true}) {
      expect_fields_of_the_cpu(info, split, {.batch = 10, .seed = 5, .shuffle = shuffle},
                               GetParam(), {0, 1, 10, 21});
    }
  }
}

// More boxes than threads look at at once.
TEST_P(BatchesGpuIn, BoxesHaveTheBitsOfTheCpu) {
  DatasetInfo info = make_info(3, 24, 32);
  Split split = make_split(info, 61);
  add_boxes(info, split, 300);
  expect_fields_of_the_cpu(info, split, {.batch = 10}, GetParam(), {0, 6});
  for (Augment augment : augments()) {
    augment.mixup = 0.0;
    expect_fields_of_the_cpu(info, split,
                             {.batch = 10, .seed = 5, .shuffle = true, .augment = augment},
                             GetParam(), {0, 1, 9, 40});
  }
}

TEST_F(BatchesGpu, RecordsOfABatchThatIsNotStagedSaySo) {
  DatasetInfo info = make_info(1, 4, 4);
  Split split = make_split(info, 100);
  add_records(info, split);
  Context gpu(Device::kGpu);
  const Batches batches(gpu, info, split, {.batch = 8, .shuffle = true, .stream = Stream::kMemory});
  for (uint64_t step = 0; step < 6; ++step) batches.stage(step);
  FieldBuffers found(info, 8, Device::kGpu, DType::kFloat32);
  const Buffer step(Device::kGpu, sizeof(uint64_t));
  const uint64_t number = 1;
  copy_bytes(step.data(), Device::kGpu, &number, Device::kCpu, sizeof number);
  batches.gather(gpu, static_cast<const uint64_t*>(step.data()), found.tensors);
  gpu.synchronize();
  for (const uint32_t word : found.words("targets")) {
    EXPECT_TRUE(std::isnan(std::bit_cast<float>(word)));
  }
  for (const uint32_t word : found.words("tokens")) EXPECT_EQ(word, ~uint32_t{0});
}

TEST_F(BatchesGpu, AnotherBatchThanTheStagedOneIsNotANumber) {
  const DatasetInfo info = make_info(1, 4, 4);
  const Split split = make_split(info, 100);
  BatchesArm gpu(Device::kGpu, info, split,
                 {.batch = 8, .shuffle = true, .stream = Stream::kMemory}, Layout::kNCHW);
  for (uint64_t step = 0; step < 6; ++step) gpu.batches.stage(step);
  gpu.set_step(1);
  gpu.gather();
  gpu.context.synchronize();
  std::vector<float> x(gpu.x.bytes() / sizeof(float));
  copy_bytes(x.data(), Device::kCpu, gpu.x.data(), Device::kGpu, gpu.x.bytes());
  for (const float value : x) EXPECT_TRUE(std::isnan(value));
}

TEST_F(BatchesGpu, AGraphFollowsTheStep) {
  const DatasetInfo info = make_info(1, 28, 28);
  const Split split = make_split(info, 1000);
  const BatchOptions options{.batch = 64, .seed = 1, .shuffle = true};
  BatchesArm cpu(Device::kCpu, info, split, options, Layout::kNCHW);
  BatchesArm gpu(Device::kGpu, info, split, options, Layout::kNCHW);
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
