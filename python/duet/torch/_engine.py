"""How duet.torch runs a layer: directly, under autograd, or as an operator that torch.compile knows.

Called from Python an operator of torch.library costs several microseconds more than what it calls, so calls on
plain tensors go around it; torch.compile, and tensors that are not plain (fake ones, subclasses), go
through it. Both end in _forward() and _backward()."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import torch
from torch import Tensor

from .. import _duet
from .._arrays import torch_device, torch_device_of
from .._errors import ConfigError, UnsupportedError
from .._layers import Desc, Prepared, prepare

_DTYPES = {torch.float32: "float32", torch.float64: "float64", torch.bfloat16: "bfloat16", torch.int32: "int32"}
_TORCH = {name: dtype for dtype, name in _DTYPES.items()}
# What autocast runs in its lower precision, and in float32, as for torch's own (torch.amp).
_LOWER = {"conv2d", "linear"}
_FLOAT32 = {"softmax", "layer_norm", "softmax_cross_entropy", "multi_margin", "gelu"}
_PLAIN = (Tensor, torch.nn.Parameter)
_peek_transforms = torch._C._functorch.peek_interpreter_stack
# Any device's; without it each call asks for its own device's.
_any_autocast = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # 0.1 us, where the public one takes 1


class Spec(NamedTuple):
    """A layer without its inputs, as prepare() takes it."""

    type: str
    keys: str
    backend: str
    math: str
    calls: Any = None
    """Of a module: the calls that it has made (_duet.TorchCalls)."""


_duet.use_torch({
    "tensor": Tensor,
    "parameter": torch.nn.Parameter,
    "any_autocast": _any_autocast,
    "transforms": _peek_transforms,
    "gradients": torch.is_grad_enabled,
    "empty_like": torch.empty_like,
    "empty_strided": torch.empty_strided,
    "uint8": torch.uint8,
    "gpu": getattr(torch._C, "_cuda_getDevice", torch.cuda.current_device),
    "stream": _raw_stream,
    "dtypes": _TORCH,
})
_is_compiling = torch.compiler.is_compiling

_prepared: dict[Any, Prepared] = {}


def _find(spec: Sequence[str], x: Sequence[Tensor], nhwc: bool, gradient: bool) -> Prepared:
    first = x[0]
    if len(x) == 1:
        key: Any = (spec, nhwc, gradient, first.dtype, first.device, first.shape)
    else:
        key = (spec, nhwc, gradient, first.dtype, first.device, *(t.shape for t in x))
    found = _prepared.get(key)
    if found is None:
        found = _prepare(spec, x, nhwc, gradient)
        if len(_prepared) >= 4096:  # shapes that never come again must not fill the memory
            _prepared.clear()
        _prepared[key] = found
    return found


def _find_fake(spec: Sequence[str], x: Sequence[Tensor], nhwc: bool, gradient: bool) -> Prepared:
    """Of tensors whose sizes may be symbols: a layer is made for numbers, so they become these."""
    return _prepare(spec, x, nhwc, gradient)


def forget() -> None:
    """Lets go of all prepared layers of duet.torch."""
    _prepared.clear()
    _duet.forget_torch_calls()


def _prepare(spec: Sequence[str], x: Sequence[Tensor], nhwc: bool, gradient: bool) -> Prepared:
    type, keys, backend, math = spec[:4]
    descs = []
    for tensor in x:
        dtype = _DTYPES.get(tensor.dtype)
        if dtype is None:
            raise UnsupportedError(f"{type}: a tensor of {tensor.dtype}; layers take float32, float64 and "
                                   "bfloat16, e.g. x.float()")
        layout = "nhwc" if nhwc and tensor.dim() == 4 else "nchw"
        descs.append(Desc(tuple(int(size) for size in tensor.shape), dtype, layout))
    arithmetic = "bf16" if descs[0].dtype == "bfloat16" else math
    return prepare(type, keys, tuple(descs), backend, arithmetic, torch_device(x[0]), gradient)


def _empty(desc: Desc, device: torch.device) -> Tensor:
    if desc.layout == "nhwc" and len(desc.shape) == 4:
        return torch.empty(desc.shape, dtype=_TORCH[desc.dtype], device=device, memory_format=torch.channels_last)
    return torch.empty(desc.shape, dtype=_TORCH[desc.dtype], device=device)


def _bytes(count: int, device: torch.device) -> Tensor:
    return torch.empty((count,), dtype=torch.uint8, device=device)


def _stream(prepared: Prepared, device: torch.device) -> int:
    if not prepared.gpu:
        return 0
    if torch.cuda.current_device() != device.index:
        torch_device_of(device)  # raises what to do about it
    return _raw_stream(device.index) if _raw_stream else torch.cuda.current_stream(device).cuda_stream


def _addresses(tensors: Sequence[Tensor | None]) -> list[int]:
    return [0 if t is None else t.data_ptr() for t in tensors]


def _check_parameters(prepared: Prepared, w: Sequence[Tensor], device: torch.device) -> None:
    if len(w) != len(prepared.parameters):
        raise ConfigError(f"{prepared} has {len(prepared.parameters)} parameters, and {len(w)} were given")
    for tensor, (name, desc, _) in zip(w, prepared.parameters):
        # The type follows from the input's (_parameter).
        if tensor.shape != desc.shape or tensor.device != device:
            raise ConfigError(f"{name} is {tuple(tensor.shape)} {tensor.dtype} on {tensor.device}, and {prepared} "
                              f"takes {desc.shape} {desc.dtype} on {device}")


def _forward(prepared: Prepared, x: Sequence[Tensor], w: Sequence[Tensor],
             training: bool) -> tuple[list[Tensor], Tensor | None]:
    """Outputs and state. Buffers among `w` are updated in place, in training."""
    # Every line of this is in the cost of a call.
    device = x[0].device
    if training and prepared.untrainable:
        raise ConfigError(f"{prepared}: {prepared.untrainable}")
    if w or prepared.parameters:
        _check_parameters(prepared, w, device)
    if prepared.only_output_is_like_input:
        y = [torch.empty_like(x[0])]
    else:
        y = [_empty(desc, device) for desc in prepared.outputs]
    state = _bytes(prepared.state_bytes, device) if prepared.state_bytes else None
    workspace = prepared.workspace["forward"]
    scratch = _bytes(workspace, device) if workspace else None
    prepared.forward([t.data_ptr() for t in x], [t.data_ptr() for t in w], [t.data_ptr() for t in y],
                     state.data_ptr() if state is not None else 0,
                     scratch.data_ptr() if scratch is not None else 0,
                     _stream(prepared, device) if prepared.gpu else 0, training)
    return y, state


def _backward(prepared: Prepared, x: Sequence[Tensor], w: Sequence[Tensor], y: Sequence[Tensor | None],
              dy: Sequence[Tensor | None], state: Tensor | None, wanted: Sequence[bool],
              training: bool) -> list[Tensor | None]:
    """The gradients that are wanted, of inputs and then of parameters."""
    device = x[0].device
    dy = [g if g is None else _like(g, desc) for g, desc in zip(dy, prepared.outputs)]
    # Inputs and parameters are as the layer reads them, so that a gradient is like its tensor.
    dx = [torch.empty_like(t) if want and has else None for t, want, has in zip(x, wanted, prepared.gradients)]
    # A pass gives the gradients of all parameters. A block's backward_data goes on with what its backward_filter
    # left, and a layer of two passes has one for all.
    parts = len(prepared.backward_passes) == 2 and not prepared.reads_output
    filter = any(wanted[len(x):]) or not parts
    dw = [torch.empty_like(t) if filter and p.trained else None for t, p in zip(w, prepared.parameters)]
    addresses: Any = [_addresses(tensors) for tensors in (x, w, y, dy, dx, dw)]
    kept = 0 if state is None else state.data_ptr()
    stream = _stream(prepared, device) if prepared.gpu else 0
    for name in prepared.backward_passes:
        if name == "backward_filter" and not filter or name == "backward_data" and dx[0] is None:
            continue
        workspace = prepared.workspace[name]
        scratch = _bytes(workspace, device) if workspace else None
        prepared.backward(name, *addresses, kept, 0 if scratch is None else scratch.data_ptr(), stream, training)
    return [g if want else None for g, want in zip([*dx, *dw], wanted)]


def _like(gradient: Tensor, desc: Desc) -> Tensor:
    """A gradient of an output as the layer reads it: a copy only where autograd gave it otherwise."""
    if gradient.dtype != _TORCH[desc.dtype]:
        gradient = gradient.to(_TORCH[desc.dtype])
    return _arranged(gradient, desc.layout == "nhwc")


def _needs(prepared: Prepared, y: Sequence[Tensor]) -> list[Tensor]:
    """Of the outputs those that backward passes read: all, or those that are no values, as a loss's hits."""
    return [t for t in y if prepared.reads_output or not t.is_floating_point()]


def _outputs_for_backward(prepared: Prepared, saved: Sequence[Tensor]) -> list[Tensor | None]:
    kept = iter(saved)
    return [next(kept) if prepared.reads_output or desc.dtype == "int32" else None
            for desc in prepared.outputs]


def _gradients(ctx: Any, *dy: Tensor | None) -> Any:
    if dy[0] is None:
        return (None,) * len(ctx.needs_input_grad)
    prepared = ctx.prepared
    saved = ctx.saved_tensors
    state = saved[-1] if prepared.state_bytes else None
    y = _outputs_for_backward(prepared, saved[ctx.count:])
    w = saved[ctx.inputs:ctx.count]
    if ctx.buffers:
        trained, buffers = iter(w), iter(ctx.buffers)
        w = [next(trained if p.trained else buffers) for p in prepared.parameters]
    gradients = _backward(prepared, saved[:ctx.inputs], w, y, dy, state, ctx.needs_input_grad[3:],
                          ctx.training)
    return (None, None, None, *gradients)


_gradients_once = torch.autograd.function.once_differentiable(_gradients)


class _Run(torch.autograd.Function):
    """A layer under autograd, on plain tensors."""

    @staticmethod
    def forward(ctx: Any, prepared: Prepared, training: bool, inputs: int, *tensors: Tensor) -> Any:
        x, w = tensors[:inputs], tensors[inputs:]
        y, state = _forward(prepared, x, w, training)
        kept = _needs(prepared, y)
        # Training updates buffers in every forward pass, and its backward passes do not read them: as saved tensors
        # they would be found changed.
        updated = training and prepared.has_buffers
        ctx.buffers = [t for t, p in zip(w, prepared.parameters) if not p.trained] if updated else []
        if updated:
            tensors = (*x, *(t for t, p in zip(w, prepared.parameters) if p.trained))
        ctx.save_for_backward(*tensors, *kept, *(() if state is None else (state,)))
        ctx.prepared, ctx.training, ctx.inputs, ctx.count = prepared, training, inputs, len(tensors)
        ctx.set_materialize_grads(False)
        if len(y) == 1:
            return y[0]
        ctx.mark_non_differentiable(*(t for t in y if not t.is_floating_point()))
        return tuple(y)

    @staticmethod
    def backward(ctx: Any, *dy: Tensor | None) -> Any:
        # Only where it is to be differentiated itself (create_graph) somebody has to be told that it cannot be.
        return _gradients_once(ctx, *dy) if torch.is_grad_enabled() else _gradients(ctx, *dy)


# torch's own apply() looks again for transforms, which call() has done, and takes as long as the rest of a small layer.
_run = super(torch.autograd.Function, _Run).apply


# ---- operators ----

_library = torch.library.Library("duet", "DEF")
_SETTINGS = "str keys, str backend, str math, bool nhwc, bool training"


def _op_forward(type: str, device: str) -> Any:
    def run(x: list[Tensor], w: list[Tensor], keys: str, backend: str, math: str, nhwc: bool,
            training: bool, gradient: bool) -> list[Tensor]:
        prepared = _find(Spec(type, keys, backend, math), x, nhwc, gradient)
        x = [_arranged(t, nhwc) for t in x]
        buffers = [not p.trained for p in prepared.parameters]
        # An operator changes nothing in place: buffers are updated in copies, which it returns.
        w = [t.clone() if b and training else _arranged(t, nhwc) for t, b in zip(w, buffers)]
        y, state = _forward(prepared, x, w, training)
        updated = [t for t, b in zip(w, buffers) if b and training]
        return [*y, _bytes(0, x[0].device) if state is None else state, *updated]

    def fake(x: list[Tensor], w: list[Tensor], keys: str, backend: str, math: str, nhwc: bool,
             training: bool, gradient: bool) -> list[Tensor]:
        prepared = _find_fake(Spec(type, keys, backend, math), x, nhwc, gradient)
        device = x[0].device
        y = [_empty(desc, device) for desc in prepared.outputs]
        updated = [torch.empty_like(t) for t, p in zip(w, prepared.parameters) if not p.trained and training]
        return [*y, _bytes(prepared.state_bytes, device), *updated]

    return fake if device == "Meta" else run


def _op_backward(type: str, device: str) -> Any:
    def run(x: list[Tensor], w: list[Tensor], y: list[Tensor], dy: list[Tensor], state: Tensor,
            wanted: list[bool], keys: str, backend: str, math: str, nhwc: bool,
            training: bool) -> list[Tensor]:
        prepared = _find(Spec(type, keys, backend, math), x, nhwc, True)
        x = [_arranged(t, nhwc) for t in x]
        w = [_arranged(t, nhwc) for t in w]
        gradients = _backward(prepared, x, w, _outputs_for_backward(prepared, y), dy, state, wanted, training)
        return [_bytes(0, x[0].device) if g is None else g for g in gradients]

    def fake(x: list[Tensor], w: list[Tensor], y: list[Tensor], dy: list[Tensor], state: Tensor,
             wanted: list[bool], keys: str, backend: str, math: str, nhwc: bool,
             training: bool) -> list[Tensor]:
        prepared = _find_fake(Spec(type, keys, backend, math), x, nhwc, True)
        device = x[0].device
        descs = [*prepared.inputs, *(p.desc for p in prepared.parameters)]
        return [_empty(desc, device) if want else _bytes(0, device) for desc, want in zip(descs, wanted)]

    return fake if device == "Meta" else run


def _define(type: str) -> None:
    """duet::TYPE and duet::TYPE_backward: lists of inputs and parameters to outputs, state, updated buffers."""
    _library.define(f"{type}(Tensor[] x, Tensor[] w, {_SETTINGS}, bool gradient) -> Tensor[]")
    _library.define(f"{type}_backward(Tensor[] x, Tensor[] w, Tensor[] y, Tensor[] dy, Tensor state, "
                    f"bool[] wanted, {_SETTINGS}) -> Tensor[]")
    for name, make in ((type, _op_forward), (f"{type}_backward", _op_backward)):
        for device in ("CPU", "CUDA"):
            _library.impl(name, make(type, device), device)
        torch.library.register_fake(f"duet::{name}", make(type, "Meta"), lib=_library)
    backward_op = getattr(torch.ops.duet, f"{type}_backward").default

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        x, w, keys, backend, math, nhwc, training, _ = inputs
        prepared = _find_fake(Spec(type, keys, backend, math), x, nhwc, True)
        count = len(prepared.outputs)
        # Buffers as they were returned: those that came in are changed by who called.
        updated = iter(output[count + 1:])
        w = [next(updated) if training and not p.trained else t for t, p in zip(w, prepared.parameters)]
        kept = _needs(prepared, output[:count])
        ctx.save_for_backward(*x, *w, *kept, output[count])
        ctx.sizes = (len(x), len(w), count, len(output))
        ctx.settings = (keys, backend, math, nhwc, training)
        ctx.differentiable = [*prepared.gradients, *(p.trained for p in prepared.parameters)]
        ctx.shapes = [(d.shape, d.dtype) for d in prepared.outputs]

    def backward(ctx: Any, gradients: list[Tensor | None]) -> Any:
        inputs, parameters, count, _ = ctx.sizes
        saved = ctx.saved_tensors
        x, w = saved[:inputs], saved[inputs:inputs + parameters]
        kept, state = saved[inputs + parameters:-1], saved[-1]
        dy = [g for g, (_, dtype) in zip(gradients[:count], ctx.shapes) if dtype != "int32"]
        dy = [torch.zeros(shape, dtype=_TORCH[dtype], device=x[0].device) if g is None else g
              for g, (shape, dtype) in zip(dy, ctx.shapes)]
        wanted = [has and t.requires_grad for has, t in zip(ctx.differentiable, [*x, *w])]
        made = backward_op(list(x), list(w), list(kept), dy, state, wanted, *ctx.settings)
        made = [g if want else None for g, want in zip(made, wanted)]
        return (made[:inputs], made[inputs:], None, None, None, None, None, None)

    torch.library.register_autograd(f"duet::{type}", backward, setup_context=setup, lib=_library)


for _name, _, _ in _duet.layer_types():
    _define(_name)
_OPS = {_name: getattr(torch.ops.duet, _name).default for _name, _, _ in _duet.layer_types()}


# ---- calls ----


def _arranged(tensor: Tensor, nhwc: bool) -> Tensor:
    """In the layout, and with the values in memory that torch shows; a copy where they are not."""
    tensor = tensor.resolve_neg()
    if nhwc and tensor.dim() == 4:
        return tensor.contiguous(memory_format=torch.channels_last)
    return tensor.contiguous()


def _is_nhwc(x: Tensor, w: Sequence[Tensor]) -> bool:
    """Of an image, as torch's own convolution: channels last if the input is, or if it may be and the weight is."""
    if not x.is_contiguous():
        return x.is_contiguous(memory_format=torch.channels_last)
    if not w or w[0].dim() != 4 or w[0].is_contiguous():
        return False
    return x.is_contiguous(memory_format=torch.channels_last)


def _cast(type: str, x: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """What autocast makes of the inputs."""
    device = x[0].device.type
    if not torch.is_autocast_enabled(device) or x[0].dtype == torch.float64:
        return x
    dtype = torch.get_autocast_dtype(device)
    if type in _LOWER:
        if dtype != torch.bfloat16:
            raise UnsupportedError(f"{type} under autocast in {dtype}: Duet has bfloat16; "
                                   f"use torch.autocast('{device}', dtype=torch.bfloat16)")
        return (x[0].to(dtype), *x[1:])
    return (x[0].float(), *x[1:]) if type in _FLOAT32 else x


def call(spec: Spec, x: tuple[Tensor, ...], w: tuple[Tensor, ...] = (), training: bool = True) -> list[Tensor]:
    """The outputs of a layer. In training buffers among `w` are updated in place. What is not contiguous (or
    channels_last), or negated on paper alone (Tensor.is_neg), is copied, as torch's own layers do; parameters of
    bfloat16 are read as float32."""
    # Every line of this is in the cost of a call.
    compiling = _is_compiling()
    calls = spec[4] if len(x) == 1 and not compiling else None
    if calls is not None:
        made = calls(x[0], w, training)
        if made is not None:
            return made
    if _any_autocast():
        x = _cast(spec[0], x)
    first, given = x[0], w
    nhwc = first.dim() == 4 and _is_nhwc(first, w)
    gradient = first.requires_grad
    plain = type(first) in _PLAIN
    if nhwc or len(x) > 1 or not first.is_contiguous() or not compiling and first.is_neg():
        x = tuple([_arranged(t, nhwc) for t in x])
        plain = plain and type(x[-1]) in _PLAIN
    if w:
        dtype = first.dtype if first.dtype is not torch.bfloat16 else torch.float32
        fits = not nhwc
        for t in w:
            if t.dtype is not dtype or not t.is_contiguous() or not compiling and t.is_neg():
                fits = False
            gradient = gradient or t.requires_grad
            plain = plain and type(t) in _PLAIN
        if not fits:
            w = tuple([_parameter(spec[0], t, first.dtype, nhwc) for t in w])
    gradient = gradient and torch.is_grad_enabled()
    if compiling or not plain:  # an operator gets tensors that are negated already
        return _call_op(spec, x, w, given, nhwc, training, gradient)
    if _peek_transforms():
        raise UnsupportedError("Duet's layers have no rules for the transforms of torch.func (grad, vmap, ...); "
                               "differentiate with torch.autograd")
    prepared = _find(spec, x, nhwc, gradient)
    if gradient:
        made = _run(prepared, training, len(x), *x, *w)
        y = [made] if len(prepared.outputs) == 1 else list(made)
    else:
        y, _ = _forward(prepared, x, w, training)
        if calls is not None and not nhwc and not (training and prepared.has_buffers):
            calls.add(prepared.layer, x[0], w, training)
    if training and prepared.has_buffers:
        for tensor, own, parameter in zip(w, given, prepared.parameters):
            if not parameter.trained and tensor is not own:
                with torch.no_grad():
                    own.copy_(tensor)
            elif not parameter.trained:
                torch.autograd.graph.increment_version(tensor)
    return y


def _parameter(type: str, w: Tensor, dtype: torch.dtype, nhwc: bool) -> Tensor:
    wanted = torch.float32 if dtype == torch.bfloat16 else dtype
    if dtype not in _DTYPES:
        raise UnsupportedError(f"{type}: a tensor of {dtype}; layers take float32, float64 and bfloat16")
    if w.dtype != wanted:
        if w.dtype != torch.bfloat16 or dtype != torch.bfloat16:
            raise ConfigError(f"{type}: the input is {dtype} and a parameter is {w.dtype}; move the module or the "
                              f"input to one type, e.g. module.to({dtype})")
        w = w.to(wanted)
    return _arranged(w, nhwc)


def _call_op(spec: Spec, x: tuple[Tensor, ...], w: tuple[Tensor, ...], given: tuple[Tensor, ...], nhwc: bool,
             training: bool, gradient: bool) -> list[Tensor]:
    """As call(), of `w` as the layer reads them; buffers are updated where they were `given`."""
    type, keys, backend, math = spec[:4]
    made = _OPS[type](list(x), list(w), keys, backend, math, nhwc, training, gradient)
    if training and type.startswith("batch_norm"):
        made, updated = made[:-2], made[-2:]
        with torch.no_grad():
            for buffer, value in zip(given[-2:], updated):
                buffer.copy_(value)
    return list(made[:-1])
