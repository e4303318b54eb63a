// For a file of kernels that is a plugin: an implementation as Duet's own are, a class with host code,
// compiled with Duet's headers. It ends with the row that a list in the source would have:
//
//   DUET_PLUGIN(duet::gpu_entry<Mine>("custom_mine"));
//
// What Duet's own do is documented where they are: layers/implementation.h and the layer's header.
#pragma once

#include <utility>

#include "layers/layer.h"

namespace duet {

/// A row of a list that another library has.
class PluginRow : public AddedEntry {
 public:
  /// Whether it is a row of this layer's list. Of others it is asked nothing else.
  virtual bool fits(const Layer& layer) const = 0;
};

template <class P>
class PluginEntry : public PluginRow {
 public:
  explicit PluginEntry(ImplEntry<P> entry) : entry_(std::move(entry)) {}

  std::string_view id() const override { return entry_.id; }
  bool fits(const Layer& layer) const override { return bound(layer); }
  std::optional<std::string> unsupported(const Layer& layer, Pass pass) const override {
    const P& problem = bound(layer)->problem();
    if (auto reason = unstored(problem.dtype, entry_.dtypes)) return reason;
    return entry_.unsupported(problem, pass);
  }
  std::unique_ptr<Implementation> make(const Layer& layer, Context& context) const override {
    return entry_.make(bound(layer)->problem(), context);
  }

 private:
  static const HasProblem<P>* bound(const Layer& layer) {
    return dynamic_cast<const HasProblem<P>*>(&layer);
  }

  const ImplEntry<P> entry_;
};

}  // namespace duet

/// The row of the file, an ImplEntry of the layer's problem.
#define DUET_PLUGIN(...)                                                                     \
  extern "C" __attribute__((visibility("default"))) const ::duet::PluginRow* duet_plugin() { \
    static const ::duet::PluginEntry row(__VA_ARGS__);                                       \
    return &row;                                                                             \
  }                                                                                          \
  static_assert(true)
