// What a call of a module of duet.torch costs is mostly Python. The commonest calls (one plain, contiguous
// tensor, parameters that are, no gradient) are made here from the second one on, through torch's own Python
// functions: nothing of torch is compiled or linked.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "prepared_layer.h"

namespace duet::python {

/// The layers that one module was called with, by what its input was. Copies are empty.
class TorchCalls {
 public:
  /// The outputs, as a list; None if this call is none of the commonest, or the first of its kind: then the
  /// caller makes it, and tells of it by add().
  nanobind::object call(nanobind::handle x, nanobind::handle w, bool training);
  /// From now on such calls are `layer`'s. REQUIRES: x and those of w are plain and contiguous; no gradient
  /// is wanted, and training updates no buffer.
  void add(nanobind::object layer, nanobind::handle x, nanobind::handle w, bool training);

 private:
  struct Parameter {
    nanobind::object dtype, shape;
  };
  struct Output {
    nanobind::object shape, strides, dtype;
    bool like_input = false;
  };
  struct Entry {
    nanobind::object keeps_layer, dtype, device, shape;
    PreparedLayer* layer = nullptr;
    bool training = true, gpu = false;
    long index = 0;  // of the GPU
    std::vector<Parameter> parameters;
    std::vector<Output> outputs;
    size_t workspace = 0;
    uint64_t generation = 0;
  };

  const Entry* find(nanobind::handle x, bool training) const;
  static bool fit(const Entry& entry, nanobind::handle w, bool gradients);

  std::vector<Entry> entries_;
};

void define_torch_calls(nanobind::module_& m);

}  // namespace duet::python
