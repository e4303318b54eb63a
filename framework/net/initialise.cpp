// Initial values, and what each kind of them means.
#include "net/initialise.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "net/weights.h"

namespace duet {
namespace {

InitialValues values_of(const ParameterSpec& spec, uint64_t seed, uint32_t index) {
  using Kind = InitialValues::Kind;
  const auto in = static_cast<double>(spec.fan_in), out = static_cast<double>(spec.fan_out);
  const auto drawn = [&](Kind kind, double scale) {
    return InitialValues{kind, scale, seed, kStreamInit + index};
  };
  switch (spec.init) {
    case Init::kDefault:  // PyTorch's kaiming_uniform_(a = sqrt(5)), and its bias
      return drawn(Kind::kUniform, 1.0 / std::sqrt(in));
    case Init::kXavierUniform:
      return drawn(Kind::kUniform, std::sqrt(6.0 / (in + out)));
    case Init::kXavierNormal:
      return drawn(Kind::kNormal, std::sqrt(2.0 / (in + out)));
    case Init::kHeUniform:
      return drawn(Kind::kUniform, std::sqrt(6.0 / in));
    case Init::kHeNormal:
      return drawn(Kind::kNormal, std::sqrt(2.0 / in));
    case Init::kZeros:
      return {.scale = 0.0};
    case Init::kOnes:
      return {.scale = 1.0};
  }
  return {};
}

}  // namespace

std::vector<float> initial_values(const ParameterSpec& spec, uint64_t seed, uint32_t index) {
  const InitialValues how = values_of(spec, seed, index);
  const int64_t count = spec.desc.elements();
  std::vector<float> values(static_cast<size_t>(count));
  constexpr int64_t kOperations = 300;  // a block
  parallel_ranges((count + 3) / 4, kOperations, [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      float of_block[4];
      initial_block(how, static_cast<uint32_t>(block), of_block);
      std::copy_n(of_block, std::min<int64_t>(4, count - 4 * block), values.data() + 4 * block);
    }
  });
  return values;
}

void Weights::initialise(uint64_t seed) {
  changed();
#if DUET_WITH_CUDA
  if (device_ == Device::kGpu) {
    Context context(device_);
    context.synchronize();  // what is queued may read them
    for (size_t i = 0; i < parameters_.size(); ++i) {
      queue_initial_values(context, values_of(parameters_[i].spec, seed, static_cast<uint32_t>(i)),
                           view(parameters_[i]));
    }
    return context.synchronize();
  }
#endif
  for (size_t i = 0; i < parameters_.size(); ++i) {
    write(parameters_[i], initial_values(parameters_[i].spec, seed, static_cast<uint32_t>(i)));
  }
}

}  // namespace duet
