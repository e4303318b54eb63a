// What test doubles have in common: the sound implementation that they run, and how they come into
// the list of their layer.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// Runs a sound implementation. Who derives from it does something wrong beside.
class DoubleBase : public Implementation {
 public:
  explicit DoubleBase(std::unique_ptr<Implementation> sound) : sound_(std::move(sound)) {}

  void prepare(Pass pass, Context& context) override { sound_->prepare(pass, context); }
  size_t workspace_bytes(Pass pass) const override { return sound_->workspace_bytes(pass); }
  size_t state_bytes() const override { return sound_->state_bytes(); }

 protected:
  /// The first tensor that `pass` writes; may be falsy.
  static const Tensor& output(Pass pass, const LayerTensors& t) {
    if (pass == Pass::kForward) return t.y[0];
    return pass == Pass::kBackwardFilter ? t.dw[0] : t.dx[0];
  }

  const std::unique_ptr<Implementation> sound_;
};

/// In a list while this lives. The last one made must go first.
template <class P>
class InList {
 public:
  InList(std::vector<ImplEntry<P>>& list, const std::vector<ImplEntry<P>>& entries)
      : list_(list), before_(list.size()) {
    list.insert(list.end(), entries.begin(), entries.end());
  }
  ~InList() { list_.resize(before_); }
  InList(const InList&) = delete;
  InList& operator=(const InList&) = delete;

 private:
  std::vector<ImplEntry<P>>& list_;
  const size_t before_;
};

/// "cpu_double_NAME" or "custom_double_NAME"; never freed, as an entry's id must be.
const std::string& double_id(Device device, const std::string& name);
bool is_double(std::string_view id);

/// Makes the first whose id starts so, that can do all of `problem` and is no double.
template <class P>
std::unique_ptr<Implementation> make_sound(const std::vector<ImplEntry<P>>& list,
                                           std::string_view id, const P& problem,
                                           Context& context) {
  for (const ImplEntry<P>& entry : list) {
    if (!entry.id.starts_with(id) || is_double(entry.id)) continue;
    const bool all = !entry.unsupported(problem, Pass::kForward) &&
                     !entry.unsupported(problem, Pass::kBackwardFilter) &&
                     !entry.unsupported(problem, Pass::kBackwardData);
    if (all) return entry.make(problem, context);
  }
  throw std::logic_error("nothing to make a double of");
}
/// A fast one of the context's device.
template <class P>
std::unique_ptr<Implementation> make_sound(const std::vector<ImplEntry<P>>& list, const P& problem,
                                           Context& context) {
  return make_sound(list, context.device() == Device::kCpu ? "cpu_blas" : "custom", problem,
                    context);
}

}  // namespace duet
