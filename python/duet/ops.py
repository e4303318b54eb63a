"""Layers as functions on arrays of NumPy, torch, CuPy and JAX, by any implementation of Duet.

Every function takes PyTorch's arguments, and three more:

- ``impl``: a family (``"cpu"``, ``"custom"``, ``"cudnn"``) or an implementation (``"custom_winograd"``), or
  ``{"forward": "custom_winograd", "backward_data": "cudnn"}``. Without it the CPU's arrays go to the family
  ``cpu``, a GPU's to ``custom``. One that cannot do what is asked is refused, with the reason.
- ``math``: ``"fp32"``, or ``"tf32"``, which lets tensor cores round the operands of products. Arrays of bfloat16
  are computed in bf16.
- ``grad``: with ``True`` the result is ``(y, backward)``, and ``backward(dy)`` gives the gradients of the array
  arguments, in their order; those of labels, of targets and of absent ones are None.

Nothing is copied: inputs are read where they are, results are new arrays of the inputs' framework, and a GPU's
work is queued on the framework's current stream. torch's autograd does not see these functions; duet.torch has
modules that it does see.
"""

from __future__ import annotations

import operator
from typing import Any, Callable, Sequence

from . import _duet
from ._arrays import Kind, kind_of
from ._errors import ConfigError, UnsupportedError
from ._layers import Desc, backend_text, keys_of, math_of, pair, prepare, whole_numbers

__all__ = [
    "add", "avg_pool2d", "batch_norm", "binary_cross_entropy_with_logits", "concat", "conv2d",
    "cross_entropy", "dropout", "gelu", "global_avg_pool2d", "layer", "layer_norm", "leaky_relu", "linear",
    "max_pool2d", "mse_loss", "multi_margin_loss", "pixel_shuffle", "relu", "sigmoid", "silu", "softmax", "tanh",
]

_BACKWARD = ("backward", "backward_filter", "backward_data")


class _Call:
    """One forward call, and what its backward passes need."""

    def __init__(self, layer_type: str, keys: str, x: Sequence[Any], w: Sequence[Any], impl: Any, math: str | None,
                 training: bool, gradient: bool, names: Sequence[str], seed: int, stream: int, step: int):
        self.kind = kind = kind_of(x[0])
        first = type(x[0])
        for array, name in zip([*x, *w], names):
            if type(array) is not first and kind_of(array) is not kind:
                raise TypeError(f"{names[0]} is an array of {kind.name}, and {name} of "
                                f"{kind_of(array).name}; convert one of them")
        seen = [kind.describe(array, name) for array, name in zip(x, names)]
        self.x = list(x)
        self.w = list(w)
        self.training = training = bool(training)
        self.x_at = [address for address, _ in seen]
        descs = tuple([desc for _, desc in seen])
        self.device = kind.device(x[0])
        for array, name in zip(x[1:], names[1:]):
            self._same_device(array, name)
        self.layer = prepare(layer_type, keys, descs, backend_text(impl), math_of(descs[0].dtype, math), self.device,
                             bool(gradient), operator.index(seed), operator.index(stream))
        if training and self.layer.untrainable:
            raise ConfigError(f"{self.layer}: {self.layer.untrainable}")
        self.step = self._number(step)
        self.w_at = self._parameters(names[len(x):])
        self.y = []
        self.y_at = []
        for desc in self.layer.outputs:
            array, address = kind.empty(desc, x[0])
            self.y.append(array)
            self.y_at.append(address)
        self.state, self.state_at = self._bytes(self.layer.state_bytes)
        # The workspace is the caller's until the call is queued; its memory goes back in stream order.
        workspace, workspace_at = self._bytes(self.layer.workspace["forward"])
        self.layer.forward(self.x_at, self.w_at, self.y_at, self.state_at, workspace_at,
                           kind.stream(x[0]), training, self.step)
        del workspace

    def _parameters(self, names: Sequence[str]) -> list[int]:
        specs = self.layer.parameters
        if len(specs) != len(self.w):
            wanted = ", ".join(spec.name for spec in specs) or "none"
            raise ConfigError(f"{self.layer} has {len(specs)} parameters ({wanted}), and {len(self.w)} "
                              "arrays were given")
        addresses = []
        for array, name, (_, wanted, _) in zip(self.w, names, specs):
            address, found = self.kind.describe(array, name)
            flat = len(wanted.shape) != 4 or wanted.shape[1] == 1 or wanted.shape[2:] == (1, 1)
            same_layout = flat or found.layout == wanted.layout
            if (found.shape, found.dtype) != (wanted.shape, wanted.dtype) or not same_layout:
                raise ConfigError(f"{name} is {_text(found)}, and {self.layer} takes {_text(wanted)}")
            self._same_device(array, name)
            addresses.append(address)
        return addresses

    def _same_device(self, array: Any, name: str) -> None:
        if self.kind.device(array) != self.device:
            raise ConfigError(f"{name} is on another device than the input")

    def _bytes(self, count: int) -> tuple[Any, int]:
        if count == 0:
            return None, 0
        # Values of four bytes: no framework has to know uint8 for it.
        return self.kind.empty(Desc(((count + 3) // 4,), "int32"), self.x[0])

    def _number(self, step: int) -> int:
        step = operator.index(step)
        if step == 0:
            return 0
        if self.layer.gpu:
            raise UnsupportedError("step: on a GPU the masks are those of step 0")
        import ctypes

        self._step_number = ctypes.c_uint64(step)
        return ctypes.addressof(self._step_number)

    def backward(self, dy: Any) -> list[Any]:
        """Gradients of the inputs, then of the parameters."""
        layer, kind = self.layer, self.kind
        dy_at = []
        arrays = list(dy) if isinstance(dy, (list, tuple)) else [dy]
        for i, wanted in enumerate(layer.outputs):
            if i >= len(arrays):  # the hits of a loss have no gradient
                dy_at.append(0)
                continue
            if kind_of(arrays[i]) is not kind:
                raise TypeError(f"dy is an array of {kind_of(arrays[i]).name}, and the input was one of {kind.name}; "
                                "convert it")
            self._same_device(arrays[i], "dy")
            address, found = kind.describe(arrays[i], "dy")
            if found.layout != wanted.layout and len(wanted.shape) != 4:
                found = found._replace(layout=wanted.layout)
            if found != wanted:
                raise ConfigError(f"dy is {_text(found)}, and the output was {_text(wanted)}")
            dy_at.append(address)
        dx, dx_at = self._gradients([d if has else None for d, has in zip(layer.inputs, layer.gradients)])
        dw, dw_at = self._gradients([p.desc if p.trained else None for p in layer.parameters])
        for name in layer.backward_passes:
            workspace, workspace_at = self._bytes(layer.workspace[name])
            layer.backward(name, self.x_at, self.w_at, self.y_at, dy_at, dx_at, dw_at, self.state_at,
                           workspace_at, kind.stream(self.x[0]), self.training, self.step)
            del workspace
        return [None if g is None else kind.finish(g) for g in [*dx, *dw]]

    def _gradients(self, descs: Sequence[Desc | None]) -> tuple[list[Any], list[int]]:
        arrays: list[Any] = []
        addresses: list[int] = []
        for desc in descs:
            array, address = (None, 0) if desc is None else self.kind.empty(desc, self.x[0])
            arrays.append(array)
            addresses.append(address)
        return arrays, addresses


def _text(desc: Desc) -> str:
    layout = f" {desc.layout}" if len(desc.shape) == 4 else ""
    return "x".join(map(str, desc.shape)) + f" {desc.dtype}{layout}"


def layer(type: str, x: Any, w: Sequence[Any] = (), *, impl: Any = None, math: str | None = None,
          grad: bool = False, training: bool = True, outputs: int = 1, names: Sequence[str] | None = None,
          seed: int = 0, stream: int = 0, step: int = 0, **keys: Any) -> Any:
    """Any layer type of Duet on arrays: `x` is its input or a list of them, `w` its parameters, `keys` its keys.

    duet.layer_types() lists the types, and their pages the keys. `outputs` is how many of the layer's outputs
    are returned: one as it is, several as a list. ``grad=True``: see the module.

    >>> y = duet.ops.layer("conv2d_pool_relu", x, [w, b], out_channels=8, kernel=3, pool_kernel=2)
    """
    x = list(x) if isinstance(x, (list, tuple)) else [x]
    if not x:
        raise ConfigError(f"{type}: no input was given")
    if names is None:
        names = [*(f"x[{i}]" if len(x) > 1 else "x" for i in range(len(x))), *(f"w[{i}]" for i in range(len(w)))]
    call = _Call(type, keys_of(**keys), x, w, impl, math, training, grad, names, seed, stream, step)
    made = [call.kind.finish(y) for y in call.y[:outputs]]
    y = made[0] if outputs == 1 else made
    return (y, call.backward) if grad else y


Gradients = Callable[[Any], Sequence[Any]]


def _ordered(result: Any, grad: bool, places: Sequence[int | None]) -> Any:
    """With `grad`, a backward whose gradients stand in the order of the function's array arguments."""
    if not grad:
        return result
    y, backward = result

    def ordered(dy: Any) -> tuple[Any, ...]:
        all_gradients = backward(dy)
        return tuple(None if i is None else all_gradients[i] for i in places)

    return y, ordered


def _weighted(b: Any) -> list[int | None]:
    return [0, 1, None if b is None else 2]


def _sizes(array: Any, name: str, axes: int) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    if shape is None:
        raise TypeError(f"{name} is {type(array).__name__}, and no array")
    if len(shape) != axes:
        raise ConfigError(f"{name} has shape {tuple(shape)}; expected {axes} axes")
    return tuple(shape)


def conv2d(x: Any, w: Any, b: Any = None, stride: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
           dilation: int | Sequence[int] = 1, groups: int = 1, *, impl: Any = None, math: str | None = None,
           grad: bool = False) -> Any:
    """2D convolution, as torch.nn.functional.conv2d: x N,C,H,W; w K,C/groups,R,S; b K. In NHWC, w is too."""
    k, _, r, s = _sizes(w, "w", 4)
    result = layer("conv2d", x, [w] if b is None else [w, b], impl=impl, math=math, grad=grad,
                   names=["x", "w", "b"], out_channels=k, kernel=(r, s), stride=pair(stride),
                   padding=pair(padding), dilation=pair(dilation), groups=groups, bias=b is not None)
    return _ordered(result, grad, _weighted(b))


def linear(x: Any, w: Any, b: Any = None, *, impl: Any = None, math: str | None = None,
           grad: bool = False) -> Any:
    """y = x w^T + b, as torch.nn.functional.linear: x N,in; w out,in; b out."""
    out, _ = _sizes(w, "w", 2)
    result = layer("linear", x, [w] if b is None else [w, b], impl=impl, math=math, grad=grad,
                   names=["x", "w", "b"], out_features=out, bias=b is not None)
    return _ordered(result, grad, _weighted(b))


def batch_norm(x: Any, running_mean: Any, running_var: Any, weight: Any = None, bias: Any = None,
               training: bool = False, momentum: float = 0.1, eps: float = 1e-5, *, impl: Any = None,
               grad: bool = False) -> Any:
    """As torch.nn.functional.batch_norm, of N,C,H,W or N,C. In training it updates the running statistics in
    place. With `grad`: the gradients of x, running_mean (None), running_var (None), weight and bias."""
    if (weight is None) != (bias is None):
        raise ConfigError("batch_norm: give weight and bias, or neither")
    affine = weight is not None
    type = "batch_norm2d" if len(getattr(x, "shape", ())) == 4 else "batch_norm1d"
    w = [weight, bias, running_mean, running_var] if affine else [running_mean, running_var]
    names = ["weight", "bias", "running_mean", "running_var"] if affine else ["running_mean", "running_var"]
    for array, name in zip(w, names):
        _refuse_read_only(array, name, training)
    result = layer(type, x, w, impl=impl, grad=grad, training=training, names=["x", *names],
                   momentum=float(momentum), eps=float(eps), affine=affine)
    return _ordered(result, grad, [0, None, None, 1 if affine else None, 2 if affine else None])


def _refuse_read_only(array: Any, name: str, written: bool) -> None:
    flags = getattr(array, "flags", None)
    if written and name.startswith("running") and getattr(flags, "writeable", True) is False:
        raise ConfigError(f"{name} is read-only, and training updates it")


def layer_norm(x: Any, normalized_shape: int | Sequence[int], weight: Any = None, bias: Any = None,
               eps: float = 1e-5, *, impl: Any = None, grad: bool = False) -> Any:
    """As torch.nn.functional.layer_norm, over the last axes of x."""
    axes = whole_numbers(normalized_shape)
    shape = tuple(getattr(x, "shape", ()))
    if not axes or shape[-len(axes):] != axes:
        raise ConfigError(f"normalized_shape {axes} is not how the shape of x {shape} ends")
    if (weight is None) != (bias is None):
        raise ConfigError("layer_norm: give weight and bias, or neither")
    affine = weight is not None
    result = layer("layer_norm", x, [weight, bias] if affine else [], impl=impl, grad=grad,
                   names=["x", "weight", "bias"], axes=len(axes), eps=float(eps), affine=affine)
    return _ordered(result, grad, [0, 1, 2] if affine else [0, None, None])


def _map(type: str, x: Any, impl: Any, grad: bool, **keys: Any) -> Any:
    return _ordered(layer(type, x, impl=impl, grad=grad, names=["x"], **keys), grad, [0])


def relu(x: Any, *, impl: Any = None, grad: bool = False) -> Any:
    """max(x, 0)"""
    return _map("relu", x, impl, grad)


def leaky_relu(x: Any, negative_slope: float = 0.01, *, impl: Any = None, grad: bool = False) -> Any:
    """x where it is above 0, else negative_slope * x"""
    return _map("leaky_relu", x, impl, grad, slope=float(negative_slope))


def sigmoid(x: Any, *, impl: Any = None, grad: bool = False) -> Any:
    """1 / (1 + exp(-x))"""
    return _map("sigmoid", x, impl, grad)


def tanh(x: Any, *, impl: Any = None, grad: bool = False) -> Any:
    """The hyperbolic tangent."""
    return _map("tanh", x, impl, grad)


def silu(x: Any, *, impl: Any = None, grad: bool = False) -> Any:
    """x / (1 + exp(-x))"""
    return _map("silu", x, impl, grad)


def gelu(x: Any, approximate: str = "none", *, impl: Any = None, grad: bool = False) -> Any:
    """As torch.nn.functional.gelu; approximate: none or tanh."""
    return _map("gelu", x, impl, grad, approximate=approximate)


def softmax(x: Any, dim: int = -1, *, impl: Any = None, grad: bool = False) -> Any:
    """Over the last axis."""
    axes = len(getattr(x, "shape", ()))
    if dim not in (-1, axes - 1):
        raise UnsupportedError(f"softmax: dim {dim} of {axes} axes is not the last; move that axis to the end")
    return _map("softmax", x, impl, grad)


def _pool(type: str, x: Any, kernel_size: Any, stride: Any, padding: Any, impl: Any, grad: bool,
          **keys: Any) -> Any:
    return _map(type, x, impl, grad, kernel=pair(kernel_size),
                stride=pair(kernel_size if stride is None else stride), padding=pair(padding), **keys)


def max_pool2d(x: Any, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, *, impl: Any = None, grad: bool = False) -> Any:
    """As torch.nn.functional.max_pool2d, without dilation and ceil_mode."""
    return _pool("max_pool2d", x, kernel_size, stride, padding, impl, grad)


def avg_pool2d(x: Any, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None,
               padding: int | Sequence[int] = 0, count_include_pad: bool = True, *, impl: Any = None,
               grad: bool = False) -> Any:
    """As torch.nn.functional.avg_pool2d, without ceil_mode and divisor_override."""
    return _pool("avg_pool2d", x, kernel_size, stride, padding, impl, grad,
                 count_include_pad=count_include_pad)


def global_avg_pool2d(x: Any, *, impl: Any = None, grad: bool = False) -> Any:
    """The mean of each channel of each image: N,C,1,1, as torch's adaptive_avg_pool2d(x, 1)."""
    return _map("global_avg_pool2d", x, impl, grad)


def pixel_shuffle(x: Any, upscale_factor: int, *, impl: Any = None, grad: bool = False) -> Any:
    """As torch.nn.functional.pixel_shuffle: N,C*r*r,H,W becomes N,C,H*r,W*r, r = upscale_factor."""
    return _map("pixel_shuffle", x, impl, grad, scale=operator.index(upscale_factor))


def dropout(x: Any, p: float = 0.5, training: bool = True, *, seed: int = 0, stream: int = 0, step: int = 0,
            impl: Any = None, grad: bool = False) -> Any:
    """x / (1 - p), or 0 with probability p. The mask is a function of seed, stream, step and element, the same on
    the CPU and a GPU (where step is 0)."""
    return _ordered(layer("dropout", x, impl=impl, grad=grad, training=training, names=["x"], p=float(p),
                          seed=seed, stream=stream, step=step), grad, [0])


def _loss(type: str, x: Any, labels: Any, impl: Any, grad: bool, **keys: Any) -> Any:
    return _ordered(layer(type, [x, labels], impl=impl, grad=grad, names=["x", "target"], **keys), grad,
                    [0, None])


def cross_entropy(x: Any, target: Any, weight: Sequence[float] | None = None, label_smoothing: float = 0.0, *,
                  ignore_index: int | None = None, impl: Any = None, grad: bool = False) -> Any:
    """As torch.nn.functional.cross_entropy of logits N,C and int32 classes N: a mean, of shape {1}. Also of logits
    N,T,C and classes N,T; torch has such logits as N,C,T. Rows whose class is `ignore_index` or not in 0 .. C-1 are
    left out; without any other row the loss is 0."""
    weights = None if weight is None else tuple(float(v) for v in weight)
    ignored = None if ignore_index is None or ignore_index < 0 else operator.index(ignore_index)
    return _loss("softmax_cross_entropy", x, target, impl, grad, label_smoothing=float(label_smoothing),
                 class_weights=weights, ignore_class=ignored)


def mse_loss(x: Any, target: Any, *, impl: Any = None, grad: bool = False) -> Any:
    """The mean of (x - onehot(target))^2 over rows and classes; target: int32 classes N."""
    return _loss("mse", x, target, impl, grad)


def binary_cross_entropy_with_logits(x: Any, target: Any, *, impl: Any = None, grad: bool = False) -> Any:
    """The mean over rows and classes against onehot(target); target: int32 classes N."""
    return _loss("bce_with_logits", x, target, impl, grad)


def multi_margin_loss(x: Any, target: Any, p: int = 1, margin: float = 1.0, *, impl: Any = None,
                      grad: bool = False) -> Any:
    """As torch.nn.functional.multi_margin_loss; target: int32 classes N."""
    return _loss("multi_margin", x, target, impl, grad, p=p, margin=float(margin))


def add(*x: Any, impl: Any = None, grad: bool = False) -> Any:
    """The sum of arrays of one shape."""
    return _ordered(layer("add", list(x), impl=impl, grad=grad), grad, list(range(len(x))))


def concat(*x: Any, impl: Any = None, grad: bool = False) -> Any:
    """Arrays one behind the other along the axis of channels (the second)."""
    return _ordered(layer("concat", list(x), impl=impl, grad=grad), grad, list(range(len(x))))
