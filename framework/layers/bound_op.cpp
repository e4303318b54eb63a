#include "layers/bound_op.h"

#include <new>

#include "core/error.h"
#include "core/running.h"
#include "device/gpu_state.h"

namespace duet {
namespace {

std::unique_ptr<Implementation> made(const Layer& layer, std::string_view id, Context& context,
                                     std::string_view name) {
  const Running running(id, layer.type(), "constructor", name);
  return layer.make(id, context);
}

}  // namespace

BoundOp::BoundOp(const Layer& layer, std::string_view id, Context& context, std::string_view name)
    : layer_(layer),
      id_(id),
      name_(name),
      context_(context),
      implementation_(made(layer, id, context, name)) {}

BoundOp::BoundOp(const Layer& layer, std::string_view id, Context& context,
                 std::unique_ptr<Implementation> implementation)
    : layer_(layer), id_(id), context_(context), implementation_(std::move(implementation)) {}

void BoundOp::prepare(Pass pass) {
  const Running running(id_, layer_.type(), "prepare", name_);
  implementation_->prepare(pass, context_);
}

void BoundOp::prepare_weights(const Run& run, const LayerTensors& tensors) {
  const Running running(id_, layer_.type(), "prepare_weights", name_);
  implementation_->prepare_weights(run, tensors);
}

void BoundOp::run(Pass pass, const Run& run, const LayerTensors& tensors) {
  const Running running(id_, layer_.type(), to_string(pass), name_);
  if (!name_.empty()) return run_named(pass, run, tensors);
  implementation_->run(pass, run, tensors);
}

void BoundOp::run_named(Pass pass, const Run& run, const LayerTensors& tensors) {
  const auto named = [&](const std::string& what) {
    return DeviceError(what + " (layer " + name_ + ", " + id_ + ", " +
                       std::string(to_string(pass)) + ", " + layer_.problem_text() + ")");
  };
  try {
    implementation_->run(pass, run, tensors);
  } catch (const DeviceError& e) {
    throw named(e.what());
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw named(e.what());
  } catch (...) {
    throw named("it threw what is no std::exception");
  }
  if (context_.device() == Device::kCpu) return;
  if (const std::string error = gpu::take_error(); !error.empty()) {
    throw named("it left a CUDA error behind: " + error);
  }
}

}  // namespace duet
