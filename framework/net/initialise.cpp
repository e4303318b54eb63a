// Initial values. Computed on the CPU in every arm, so that all start from the same bits.
#include <cmath>
#include <numbers>

#include "device/philox.h"
#include "net/weights.h"

namespace duet {
namespace {

// Half-width of the uniform interval, or standard deviation of the normal, of `init`.
double scale_of(const ParameterSpec& spec) {
  const double in = static_cast<double>(spec.fan_in), out = static_cast<double>(spec.fan_out);
  switch (spec.init) {
    case Init::kDefault:  // PyTorch's kaiming_uniform_(a = sqrt(5)), and its bias
      return 1.0 / std::sqrt(in);
    case Init::kXavierUniform:
      return std::sqrt(6.0 / (in + out));
    case Init::kXavierNormal:
      return std::sqrt(2.0 / (in + out));
    case Init::kHeUniform:
      return std::sqrt(6.0 / in);
    case Init::kHeNormal:
      return std::sqrt(2.0 / in);
    case Init::kZeros:
    case Init::kOnes:
      return 0.0;
  }
  return 0.0;
}

double unit(uint32_t word) { return (word + 0.5) * 0x1p-32; }  // in (0, 1)

}  // namespace

std::vector<float> initial_values(const ParameterSpec& spec, uint64_t seed, uint32_t index) {
  if (spec.init == Init::kOnes) {
    return std::vector<float>(static_cast<size_t>(spec.desc.elements()), 1.0f);
  }
  const double scale = scale_of(spec);
  const bool normal = spec.init == Init::kXavierNormal || spec.init == Init::kHeNormal;
  std::vector<float> values(spec.desc.elements());
  for (size_t block = 0; block * 4 < values.size(); ++block) {
    const Philox4 words = philox_block(seed, 0, kStreamInit + index, static_cast<uint32_t>(block));
    for (size_t j = 0; j < 4 && block * 4 + j < values.size(); ++j) {
      double value = 2.0 * unit(words.v[j]) - 1.0;
      if (normal) {  // Box-Muller: words 0,1 make values 0,1; words 2,3 make values 2,3
        const double radius = std::sqrt(-2.0 * std::log(unit(words.v[j & 2])));
        const double angle = 2.0 * std::numbers::pi * unit(words.v[(j & 2) + 1]);
        value = radius * (j & 1 ? std::sin(angle) : std::cos(angle));
      }
      values[block * 4 + j] = static_cast<float>(scale * value);
    }
  }
  return values;
}

}  // namespace duet
