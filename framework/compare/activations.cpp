#include "compare/activations.h"

#include "measure/guarded_buffer.h"

namespace duet {

Activations take_activations(Training& training) {
  const Device device = training.context().device();
  Activations all;
  for (const Operation& operation : training.program()) {
    if (operation.kind == Operation::Kind::kGather) operation.queue();
    if (operation.kind != Operation::Kind::kLayer) continue;
    const Net::Call& call = *operation.call;
    const LayerTensors& t = call.node->tensors;
    LayerData& data = all[call.node->name];
    if (data.x.empty()) {  // the layer's first pass
      for (const Tensor& x : t.x) data.x.push_back(values_of(x, device));
      for (const Tensor& w : t.w) data.w.push_back(values_of(w, device));
      for (const TensorDesc& y : call.node->layer->outputs()) {
        // Zero until the backward pass; for what has no gradient nothing.
        data.dy.emplace_back(is_float(y.dtype) ? static_cast<size_t>(y.elements()) : 0);
      }
    }
    if (call.step->pass != Pass::kForward) {
      // Its memory is another layer's later in the step.
      for (size_t i = 0; i < data.dy.size(); ++i) {
        if (!data.dy[i].empty()) data.dy[i] = values_of(t.dy[i], device);
      }
    }
    operation.queue();
  }
  training.context().synchronize();
  return all;
}

}  // namespace duet
