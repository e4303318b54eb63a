// One way to compute a layer, the interfaces that several layers share, and the rows of their lists.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/storage.h"
#include "core/tensor.h"
#include "device/context.h"

namespace duet {

/// Layers with weights run kForward, kBackwardFilter (dw, db) and, where dx is wanted,
/// kBackwardData (dx), in this order; others run kForward and kBackward (all gradients at once).
enum class Pass { kForward, kBackward, kBackwardData, kBackwardFilter };
/// "forward", "backward", "backward_data", "backward_filter"
std::string_view to_string(Pass pass);

/// Who wrote an implementation. An id starts with its family's name: "custom_naive".
enum class Family { kCpu, kCustom, kCudnn };
/// "cpu", "custom", "cudnn"
std::string_view to_string(Family family);
std::optional<Family> family_from(std::string_view name);
/// REQUIRES: `id` starts with a family's name.
Family family_of(std::string_view id);
/// The CPU for kCpu, the GPU for the others.
Device device_of(Family family);

/// The memory of one layer. All views are on the context's device and do not overlap, but that a sum
/// (Layer::is_sum) may have one memory for all y, and one for all dx. Gradients are overwritten (=),
/// never accumulated. dx[i] is falsy where nobody needs it.
struct LayerTensors {
  std::vector<Tensor> x;
  std::vector<Tensor> y;
  std::vector<Tensor> dx;
  std::vector<Tensor> dy;
  std::vector<Tensor> w;   // parameters, in parameters() order
  std::vector<Tensor> dw;  // their gradients; falsy for a buffer
  Tensor state;            // state_bytes() kept from forward to backward (bytes, kUInt8); backward
                           // passes may run several times behind one forward, and leave it as it is
};

/// Which of a layer's own tensors a backward pass needs as forward left them, as what PyTorch saves
/// for backward.
struct SavedTensors {
  bool x = false, y = false;
};

/// One way to compute one layer on one problem. Made before the first step; run() only queues work
/// on the context's stream (GPU) or computes (CPU): it never allocates, synchronises or reads back.
class Implementation {
 public:
  virtual ~Implementation() = default;

  /// Called once for each pass this will run, before workspace_bytes(): searches algorithms, builds
  /// descriptors. May allocate and synchronise.
  virtual void prepare(Pass, Context&) {}
  /// Scratch memory of a pass (Run::workspace).
  virtual size_t workspace_bytes(Pass) const { return 0; }
  /// Memory kept from forward to backward (an argmax, a mask).
  virtual size_t state_bytes() const { return 0; }
  /// Whether a backward pass reads x and y. A network may reuse the memory of a tensor that it does not.
  virtual SavedTensors reads(Pass) const { return {.x = true, .y = true}; }
  /// The ports that `pass` can use in inference (Run::inference) or else in a training step. After
  /// prepare(pass) the result is always the same.
  virtual std::vector<PortUse> ports(Pass, bool /*inference*/) const { return {}; }
  /// Queues the computation of run.ports.prepared_w from the parameters. Uses no workspace.
  /// REQUIRES: forward can take the port.
  virtual void prepare_weights(const Run&, const LayerTensors&) {
    throw std::logic_error("prepares no weights");
  }
  /// For tables: the library's algorithm, a tile shape; may be empty.
  virtual std::string detail(Pass) const { return ""; }
  /// What a run of `pass` hands to others, one after the other: functions of a library
  /// ("cudnnPoolingForward") or implementations of other layers ("conv2d cpu_blas"). Empty where
  /// its own kernels do all.
  virtual std::vector<std::string> calls(Pass) const { return {}; }
  virtual void run(Pass pass, const Run& run, const LayerTensors& tensors) = 0;
};

/// The ports of an implementation whose forward takes prepared weights in inference alone. `bytes()` is
/// their size, 0 for none; it is called for that pass alone, since others may be prepared without forward.
template <class Bytes>
std::vector<PortUse> prepared_for(Pass pass, bool inference, Bytes&& bytes) {
  if (pass != Pass::kForward || !inference) return {};
  const TensorDesc desc = opaque(bytes());
  if (desc.bytes() == 0) return {};
  return {{&Ports::prepared_w, PortUse::Access::kTakes, desc}};
}

/// An implementation of layers whose problem struct is P.
template <class P>
class ImplementationOf : public Implementation {
 public:
  using Problem = P;
  explicit ImplementationOf(const P& problem) : problem_(problem) {}

 protected:
  const P problem_;
};

/// The interface of layers with one input, one output and no parameters. `state` is what forward
/// left for backward, which is called only where dx is wanted.
template <class P>
class MapImpl : public ImplementationOf<P> {
 public:
  using ImplementationOf<P>::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& state) = 0;
  virtual void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy,
                        const Tensor& state, const Tensor& dx) = 0;

  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.y[0], t.state);
    } else if (t.dx[0]) {
      backward(run, t.x[0], t.y[0], t.dy[0], t.state, t.dx[0]);
    }
  }
};

/// The interface of layers with a weight and, if `bias` of the problem says so, a bias; else b and
/// db are falsy. Backward passes may be left out by who says that in `unsupported`.
template <class P>
class WeightedImpl : public ImplementationOf<P> {
 public:
  using ImplementationOf<P>::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor& y) = 0;
  /// Called only where dx is wanted.
  virtual void backward_data(const Run&, const Tensor& /*dy*/, const Tensor& /*w*/,
                             const Tensor& /*dx*/) {
    throw std::logic_error("has no backward_data; its entry must say so");
  }
  virtual void backward_filter(const Run&, const Tensor& /*x*/, const Tensor& /*dy*/,
                               const Tensor& /*dw*/, const Tensor& /*db*/) {
    throw std::logic_error("has no backward_filter; its entry must say so");
  }

  SavedTensors reads(Pass pass) const final { return {.x = pass == Pass::kBackwardFilter}; }
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const bool bias = this->problem_.bias;
    if (pass == Pass::kForward) {
      forward(run, t.x[0], t.w[0], bias ? t.w[1] : Tensor{}, t.y[0]);
    } else if (pass == Pass::kBackwardFilter) {
      backward_filter(run, t.x[0], t.dy[0], t.dw[0], bias ? t.dw[1] : Tensor{});
    } else if (t.dx[0]) {
      backward_data(run, t.dy[0], t.w[0], t.dx[0]);
    }
  }
};

/// For entries that can do everything.
template <class P>
std::optional<std::string> supports_all(const P&, Pass) {
  return {};
}

/// A row of a layer's list of implementations. P is the layer's problem struct.
template <class P>
struct ImplEntry {
  std::string_view id;
  /// Why this cannot run `pass` of `problem`, or nothing if it can. Never a matter of device: that
  /// is checked by the caller.
  std::optional<std::string> (*unsupported)(const P& problem, Pass pass) = supports_all;
  std::unique_ptr<Implementation> (*make)(const P& problem, Context& context) = nullptr;
  /// Taken by a network-wide request for a family that has no entry at all in this list; tables
  /// mark it as the same in every arm.
  bool shared = false;
  /// What it can store activations in. Of other types it is never asked anything else.
  std::vector<DType> dtypes = {DType::kFloat32};
  /// Whether a request for the family takes this before the entries above it in the list, by sizes
  /// at which it was measured to be faster, if prepare() will not refuse them for want of
  /// `workspace_limit` bytes. REQUIRES: it supports the pass. Without: never.
  bool (*preferred)(const P& problem, Pass pass, size_t workspace_limit) = nullptr;
};

/// Of a cpu_reference: float32, float64 and bfloat16.
const std::vector<DType>& reference_dtypes();
/// Of entries on a GPU that are written for both: float32 and bfloat16.
const std::vector<DType>& gpu_dtypes();
/// Why an entry of these `dtypes` cannot run a problem that is stored in `dtype`, or nothing.
std::optional<std::string> unstored(DType dtype, const std::vector<DType>& dtypes);

/// For products on tensor cores, whose operands have at most 11 digits. What multiplies in fp32 serves
/// tf32 too, which permits rounding and asks for none.
template <class P>
std::optional<std::string> tensor_cores_only(const P& problem, Pass) {
  if (problem.math != Math::kFP32) return {};
  return "multiplies on tensor cores, in tf32 or bf16, and 'math' is fp32";
}

/// For products of float32 in parts, which have no more to give in tf32 and bf16.
template <class P>
std::optional<std::string> fp32_only(const P& problem, Pass) {
  if (problem.math == Math::kFP32) return {};
  return "multiplies fp32 in three parts, and 'math' is " + std::string(to_string(problem.math)) +
         ", which custom_wgmma does in one";
}

/// For entries made by a constructor T(problem) or T(problem, context).
template <class T, class P>
std::unique_ptr<Implementation> make_implementation(const P& problem, Context& context) {
  if constexpr (std::is_constructible_v<T, const P&, Context&>) {
    return std::make_unique<T>(problem, context);
  } else {
    return std::make_unique<T>(problem);
  }
}

template <class P>
using Unsupported = decltype(ImplEntry<P>::unsupported);

/// The entry of T, an ImplementationOf its problem.
template <class T, class P = typename T::Problem>
ImplEntry<P> impl_entry(std::string_view id, Unsupported<P> unsupported = supports_all,
                        const std::vector<DType>& dtypes = {DType::kFloat32}) {
  return {id, unsupported, make_implementation<T>, false, dtypes};
}

/// The same of a class template whose argument is the C++ type that it stores: one of Stored.
template <template <class> class T, class... Stored, class P = typename T<float>::Problem>
ImplEntry<P> stored_entry(std::string_view id, Unsupported<P> unsupported) {
  const auto make = [](const P& problem, Context& context) {
    std::unique_ptr<Implementation> made;
    const auto make_if = [&]<class V>(V) {
      if (dtype_of<V> == problem.dtype) made = make_implementation<T<V>>(problem, context);
    };
    (make_if(Stored{}), ...);
    return made;
  };
  return {id, unsupported, make, false, {dtype_of<Stored>...}};
}
template <template <class> class T, class P = typename T<float>::Problem>
ImplEntry<P> reference_entry() {
  return stored_entry<T, float, double, bfloat16>("cpu_reference", supports_all);
}
template <template <class> class T, class P = typename T<float>::Problem>
ImplEntry<P> gpu_entry(std::string_view id, Unsupported<P> unsupported = supports_all) {
  return stored_entry<T, float, bfloat16>(id, unsupported);
}

/// An ImplEntry without its problem's type.
struct ImplInfo {
  std::string_view id;
  bool shared = false;
};
template <class P>
std::vector<ImplInfo> infos_of(const std::vector<ImplEntry<P>>& list) {
  std::vector<ImplInfo> infos;
  for (const auto& entry : list) infos.push_back({entry.id, entry.shared});
  return infos;
}

}  // namespace duet
