#include "layers/conv2d/cudnn/conv2d_trial.h"

#include <algorithm>

namespace duet {
namespace {

template <class T>
void fill(const Buffer& buffer, const TensorDesc& desc, const std::vector<T>& pattern) {
  size_t done = std::min(desc.bytes(), pattern.size() * sizeof(T));
  copy_bytes(buffer.data(), Device::kGpu, pattern.data(), Device::kCpu, done);
  while (done < desc.bytes()) {  // whole periods: the pattern goes on
    const size_t part = std::min(done, desc.bytes() - done);
    copy_bytes(buffer.at(done), Device::kGpu, buffer.data(), Device::kGpu, part);
    done += part;
  }
}

Buffer filled(const TensorDesc& desc, const KnownValues& values) {
  Buffer buffer(Device::kGpu, desc.bytes());
  visit_gpu_storage(desc.dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<T> pattern;
    for (const float value : values.pattern()) pattern.push_back(T(value));
    fill(buffer, desc, pattern);
  });
  return buffer;
}

}  // namespace

Conv2dTrial::Conv2dTrial(const Conv2dProblem& problem, Pass pass, const Parameters& parameters,
                         size_t workspace_bytes)
    : pass_(pass),
      values_(problem.dtype),
      samples_(problem, pass, values_),
      output_type_(pass == Pass::kBackwardFilter ? parameters.w : problem.dtype),
      x_(filled(problem.x_desc(), values_.x)),
      w_(filled(stored_in(parameters.w, problem.w_desc()), values_.w)),
      b_(filled(stored_in(parameters.b, problem.b_desc()), values_.b)),
      y_(filled(problem.y_desc(), values_.y)),
      workspace_(Device::kGpu, workspace_bytes),
      memory_{x_.data(), w_.data(), problem.bias ? b_.data() : nullptr, y_.data(),
              workspace_.data()} {}

Conv2dTrial::Outcome Conv2dTrial::check(const std::function<void()>& queue) const {
  const Buffer& output = pass_ == Pass::kForward ? y_ : pass_ == Pass::kBackwardData ? x_ : w_;
  const auto run = [&] {
    fill_bytes(output.data(), Device::kGpu, 0xff, output.bytes());  // NaN: all is to be written
    queue();
    // Atomics show anywhere in an output; large ones need not be brought over whole.
    constexpr size_t kMostCompared = size_t{8} << 20;
    return download(output.data(), Device::kGpu, std::min(output.bytes(), kMostCompared));
  };
  const bool repeats = run() == run();
  std::vector<float> found;
  visit_gpu_storage(output_type_, [&](auto value) {
    for (const int64_t offset : samples_.offsets()) {
      copy_bytes(&value, Device::kCpu, static_cast<const decltype(value)*>(output.data()) + offset,
                 Device::kGpu, sizeof value);
      found.push_back(value);
    }
  });
  const double error = samples_.relative_error(found);
  return {error, repeats, repeats && error <= samples_.limit()};
}

}  // namespace duet
