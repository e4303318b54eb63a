"""Modules that take the place of torch.nn's, one for one, computed by the implementation you name.

Each derives from torch's own: the same arguments, parameters, buffers, initialisation and state_dict. Added are
`backend` (a family, an id, or {pass: id}; None: the family cpu on the CPU, custom on a GPU) and `math` ("fp32" or
"tf32"). Attributes count as they are when the module is called, as torch's do. What torch's module can and no layer
of Duet does is refused, when the module is made or called, never computed otherwise. `inplace` is accepted and has no
effect: results are new tensors."""

from __future__ import annotations

import inspect
from typing import Any, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import _duet
from .._errors import ConfigError, UnsupportedError
from .._layers import backend_text, keys_of, pair
from ._engine import Spec, call


def _signature_of(cls: type) -> inspect.Signature:
    """torch's, with backend and math; of a class with an __init__ of its own, that of it."""
    made_by = next(base for base in cls.__mro__ if base is not _Backed and "__init__" in base.__dict__)
    parameters = list(inspect.signature(made_by.__init__).parameters.values())[1:]  # type: ignore[misc]
    if not issubclass(made_by, _Backed):
        named = [each for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
        added = inspect.signature(_Backed.__init__).parameters
        parameters = [*named, added["backend"], added["math"]]
    return inspect.Signature(parameters)


class _Backed:
    """What all of them share; stands before torch's class among the bases."""

    backend: Any
    math: str
    _spec: Spec | None
    """The layer of the attributes as they are; None: Duet has none, and a call says why."""
    _type = ""
    _reads: frozenset[str] = frozenset()
    """The attributes that _layer() reads."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__signature__ = _signature_of(cls)  # type: ignore[attr-defined]

    def __init__(self, *args: Any, backend: Any = None, math: str = "fp32", **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.set_backend(backend, math)

    def set_backend(self, backend: str | Mapping[str, str] | None = None, math: str = "fp32") -> None:
        """From the next call on this module runs by another implementation."""
        if math not in ("fp32", "tf32"):
            raise ConfigError(f"math '{math}': expected fp32 or tf32 (for bf16 give the module bfloat16 tensors, "
                              "or use torch.autocast)")
        self.__dict__.update(backend=backend, math=math)
        for name in self._reads:  # a list could be changed in place, which nobody would see
            if isinstance(self.__dict__.get(name), list):
                self.__dict__[name] = tuple(self.__dict__[name])
        self._spec = self._made_spec()

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if "_spec" not in self.__dict__ or not (name in self._reads or name in ("backend", "math")):
            return
        before = self._spec
        try:
            self.set_backend(self.backend, self.math)
        except Exception:  # another attribute that goes with it may follow
            self._spec = None
        if before and self._spec and self._spec[:4] == before[:4]:
            self._spec = before  # with the calls that it has made

    def _made_spec(self) -> Spec:
        type, keys = self._layer()
        return Spec(type, keys_of(**keys), backend_text(self.backend), self.math, _duet.TorchCalls())

    def _call(self, *args: Any) -> list[Tensor]:
        return call(self._spec or self._made_spec(), *args)

    def _layer(self) -> tuple[str, dict[str, Any]]:
        """(layer type, keys) of this module. Raises UnsupportedError for what no layer of Duet does."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        before = super().extra_repr()  # type: ignore[misc]
        own = f"backend={self.backend!r}, math={self.math!r}, duet={_duet.version().partition(' ')[0]!r}"
        return f"{before}, {own}" if before else own


def _weight_and_bias(module: nn.Module) -> tuple[Tensor, ...]:
    """Its parameters. Where they stand, they are found in a third of the time that attributes take; what is not there
    (of a parametrization) is an attribute."""
    known = module._parameters
    weight = known["weight"] if "weight" in known else module.weight
    bias = known["bias"] if "bias" in known else module.bias
    return (weight,) if bias is None else (weight, bias)


def _refuse(module: nn.Module, what: str) -> None:
    raise UnsupportedError(f"{type(module).__name__}: {what}")


class Conv2d(_Backed, nn.Conv2d):
    """torch.nn.Conv2d. Padding that is not zeros, or not the same on both sides, is added by torch before."""

    _reads = frozenset(("stride", "padding", "dilation", "groups", "padding_mode", "weight", "bias",
                        "_reversed_padding_repeated_twice"))
    _padded: tuple[int, ...] | None

    def _layer(self) -> tuple[str, dict[str, Any]]:
        # Sizes are the weight's: torch reads neither out_channels nor kernel_size after the module is made.
        out_channels, _, *kernel = self.weight.shape
        dilation = pair(self.dilation)
        padding: Any = self.padding
        around = None  # left, right, top, bottom
        if self.padding_mode != "zeros":
            around = tuple(self._reversed_padding_repeated_twice)
        elif padding == "same":
            totals = [d * (size - 1) for d, size in zip(dilation, kernel)]
            around = tuple(side for total in reversed(totals) for side in (total // 2, total - total // 2))
            if around[0] == around[1] and around[2] == around[3]:
                padding, around = (around[2], around[0]), None
        self._padded = around
        padding = (0, 0) if around is not None or padding == "valid" else pair(padding)
        return "conv2d", dict(out_channels=out_channels, kernel=kernel, stride=pair(self.stride), padding=padding,
                              dilation=dilation, groups=self.groups, bias=self.bias is not None)

    def forward(self, input: Tensor) -> Tensor:
        if self._padded is not None:
            mode = "constant" if self.padding_mode == "zeros" else self.padding_mode
            input = F.pad(input, self._padded, mode=mode)
        w = _weight_and_bias(self)
        if input.dim() == 3:
            return self._call((input.unsqueeze(0),), w)[0].squeeze(0)
        return self._call((input,), w)[0]


class Linear(_Backed, nn.Linear):
    """torch.nn.Linear."""

    _reads = frozenset(("weight", "bias"))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        return "linear", dict(out_features=self.weight.shape[0], bias=self.bias is not None)

    def forward(self, input: Tensor) -> Tensor:
        w = _weight_and_bias(self)
        if input.dim() == 2:
            return self._call((input,), w)[0]
        rows = self._call((input.reshape(-1, input.shape[-1]),), w)[0]
        return rows.reshape(*input.shape[:-1], rows.shape[-1])


class _BatchNorm(_Backed):
    _reads = frozenset(("eps", "momentum", "track_running_stats", "weight", "bias", "running_mean", "running_var"))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if not self.track_running_stats or self.running_mean is None or self.running_var is None:
            _refuse(self, "track_running_stats=False: Duet's always keeps them")
        if self.momentum is None:
            _refuse(self, "momentum=None (a plain average over all batches): give a number")
        if (self.weight is None) != (self.bias is None):
            _refuse(self, "weight without bias: Duet's has both or neither")
        return self._type, dict(eps=float(self.eps), momentum=float(self.momentum), affine=self.weight is not None)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        buffers = (self.running_mean, self.running_var)
        w = buffers if self.weight is None else (self.weight, self.bias, *buffers)
        return self._call((input,), w, self.training)[0]


class BatchNorm2d(_BatchNorm, nn.BatchNorm2d):
    """torch.nn.BatchNorm2d."""

    _type = "batch_norm2d"


class BatchNorm1d(_BatchNorm, nn.BatchNorm1d):
    """torch.nn.BatchNorm1d, of N x C alone."""

    _type = "batch_norm1d"

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() != 2:
            _refuse(self, f"an input of {input.dim()} axes: Duet's takes N x C")


class LayerNorm(_Backed, nn.LayerNorm):
    """torch.nn.LayerNorm."""

    _reads = frozenset(("normalized_shape", "eps", "weight", "bias"))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if (self.weight is None) != (self.bias is None):
            _refuse(self, "weight without bias: Duet's has both or neither")
        return "layer_norm", dict(axes=len(self.normalized_shape), eps=float(self.eps),
                                  affine=self.weight is not None)

    def forward(self, input: Tensor) -> Tensor:
        axes = len(self.normalized_shape)
        if tuple(input.shape[-axes:]) != tuple(self.normalized_shape):
            raise ConfigError(f"LayerNorm of {tuple(self.normalized_shape)}: the shape of the input, "
                              f"{tuple(input.shape)}, does not end so")
        rows = input.reshape(-1, *self.normalized_shape) if input.dim() != 2 else input
        w = () if self.weight is None else (self.weight, self.bias)
        # Rows lie one behind the other; channels last would be another order.
        return self._call((rows.contiguous(),), w)[0].reshape(input.shape)


class _Map(_Backed):
    """Elementwise: of any shape."""

    def _layer(self) -> tuple[str, dict[str, Any]]:
        return self._type, {}

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() <= 4:
            return self._call((input,))[0]
        return self._call((input.reshape(-1),))[0].reshape(input.shape)


class ReLU(_Map, nn.ReLU):
    """torch.nn.ReLU."""

    _type = "relu"


class LeakyReLU(_Map, nn.LeakyReLU):
    """torch.nn.LeakyReLU."""

    _reads = frozenset(("negative_slope",))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        return "leaky_relu", dict(slope=float(self.negative_slope))


class Sigmoid(_Map, nn.Sigmoid):
    """torch.nn.Sigmoid."""

    _type = "sigmoid"


class Tanh(_Map, nn.Tanh):
    """torch.nn.Tanh."""

    _type = "tanh"


class SiLU(_Map, nn.SiLU):
    """torch.nn.SiLU."""

    _type = "silu"


class GELU(_Map, nn.GELU):
    """torch.nn.GELU."""

    _reads = frozenset(("approximate",))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        return "gelu", dict(approximate=self.approximate)


class Softmax(_Backed, nn.Softmax):
    """torch.nn.Softmax. Another axis than the last is moved to the end and back, which copies."""

    _reads = frozenset(("dim",))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if self.dim is None:
            _refuse(self, "dim=None: say which axis")
        return "softmax", {}

    def forward(self, input: Tensor) -> Tensor:
        if self.dim in (-1, input.dim() - 1) and input.dim() <= 4:
            return self._call((input,))[0]
        moved = input.movedim(self.dim, -1)
        rows = self._call((moved.reshape(-1, moved.shape[-1]),))[0]
        return rows.reshape(moved.shape).movedim(-1, self.dim)


class _Pool(_Backed):
    _reads = frozenset(("kernel_size", "stride", "padding", "ceil_mode"))

    def _sizes(self) -> dict[str, Any]:
        if self.ceil_mode:
            _refuse(self, "ceil_mode=True: Duet's rounds sizes down")
        stride = self.kernel_size if self.stride is None else self.stride
        return dict(kernel=pair(self.kernel_size), stride=pair(stride), padding=pair(self.padding))

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() == 3:
            return self._call((input.unsqueeze(0),))[0].squeeze(0)
        return self._call((input,))[0]


class MaxPool2d(_Pool, nn.MaxPool2d):
    """torch.nn.MaxPool2d, without dilation, ceil_mode and return_indices."""

    _reads = _Pool._reads | {"dilation", "return_indices"}

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if pair(self.dilation) != (1, 1):
            _refuse(self, f"dilation={self.dilation}: Duet's has 1")
        if self.return_indices:
            _refuse(self, "return_indices=True: Duet's returns no indices")
        return "max_pool2d", self._sizes()


class AvgPool2d(_Pool, nn.AvgPool2d):
    """torch.nn.AvgPool2d, without ceil_mode and divisor_override."""

    _reads = _Pool._reads | {"count_include_pad", "divisor_override"}

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if self.divisor_override is not None:
            _refuse(self, "divisor_override: Duet's divides by the window")
        return "avg_pool2d", dict(count_include_pad=self.count_include_pad, **self._sizes())


class AdaptiveAvgPool2d(_Backed, nn.AdaptiveAvgPool2d):
    """torch.nn.AdaptiveAvgPool2d(1): the mean of each channel."""

    _reads = frozenset(("output_size",))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if self.output_size not in (1, (1, 1)):
            _refuse(self, f"output_size={self.output_size}: Duet's is 1")
        return "global_avg_pool2d", {}

    forward = _Pool.forward


class PixelShuffle(_Backed, nn.PixelShuffle):
    """torch.nn.PixelShuffle."""

    _reads = frozenset(("upscale_factor",))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        return "pixel_shuffle", dict(scale=self.upscale_factor)

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() == 4:
            return self._call((input,))[0]
        images = self._call((input.reshape(-1, *input.shape[-3:]),))[0]
        return images.reshape(*input.shape[:-3], *images.shape[1:])


class CrossEntropyLoss(_Backed, nn.CrossEntropyLoss):
    """torch.nn.CrossEntropyLoss of class indices, reduction "mean".

    On the CPU a target outside 0 .. C-1 that is not `ignore_index` raises IndexError, as torch does; on a GPU, where
    looking would wait for it, such a row is left out. Where every row is left out the loss is 0 (torch: NaN)."""

    _reads = frozenset(("reduction", "label_smoothing", "weight"))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if self.reduction != "mean":
            _refuse(self, f"reduction='{self.reduction}': Duet's is the mean")
        weights = None if self.weight is None else tuple(self.weight.tolist())
        self._weights_at = None if self.weight is None else self.weight._version
        return "softmax_cross_entropy", dict(label_smoothing=float(self.label_smoothing), class_weights=weights)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        if target.is_floating_point():
            _refuse(self, "targets that are probabilities: Duet's are class indices")
        if self.weight is not None and self.weight._version != self._weights_at:
            self.set_backend(self.backend, self.math)  # load_state_dict changed them
        if input.dim() == 1:
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        elif input.dim() > 2:
            input = input.movedim(1, -1).reshape(-1, input.shape[1])
            target = target.reshape(-1)
        classes = input.shape[1]
        left_out = target == self.ignore_index
        if target.device.type == "cpu" and not torch.compiler.is_compiling():
            wrong = ((target < 0) | (target >= classes)) & ~left_out
            if wrong.any():
                raise IndexError(f"target {int(target[wrong][0])} is out of bounds for {classes} classes")
        labels = torch.where(left_out, -1, target).to(torch.int32)
        return self._call((input, labels))[0].squeeze(0)


class MultiMarginLoss(_Backed, nn.MultiMarginLoss):
    """torch.nn.MultiMarginLoss, reduction "mean", without class weights."""

    _reads = frozenset(("reduction", "p", "margin", "weight"))

    def _layer(self) -> tuple[str, dict[str, Any]]:
        if self.reduction != "mean":
            _refuse(self, f"reduction='{self.reduction}': Duet's is the mean")
        if self.weight is not None:
            _refuse(self, "class weights: Duet's has none")
        if self.p not in (1, 2):
            _refuse(self, f"p={self.p}: Duet's is 1 or 2")
        return "multi_margin", dict(p=int(self.p), margin=float(self.margin))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        if target.device.type == "cpu" and not torch.compiler.is_compiling():
            wrong = (target < 0) | (target >= input.shape[-1])
            if wrong.any():
                raise IndexError(f"target {int(target[wrong][0])} is out of bounds for {input.shape[-1]} classes")
        return self._call((input, target.to(torch.int32)))[0].squeeze(0)


MODULES: dict[type[nn.Module], type[nn.Module]] = {
    nn.AdaptiveAvgPool2d: AdaptiveAvgPool2d,
    nn.AvgPool2d: AvgPool2d,
    nn.BatchNorm1d: BatchNorm1d,
    nn.BatchNorm2d: BatchNorm2d,
    nn.Conv2d: Conv2d,
    nn.CrossEntropyLoss: CrossEntropyLoss,
    nn.GELU: GELU,
    nn.LayerNorm: LayerNorm,
    nn.LeakyReLU: LeakyReLU,
    nn.Linear: Linear,
    nn.MaxPool2d: MaxPool2d,
    nn.MultiMarginLoss: MultiMarginLoss,
    nn.PixelShuffle: PixelShuffle,
    nn.ReLU: ReLU,
    nn.Sigmoid: Sigmoid,
    nn.SiLU: SiLU,
    nn.Softmax: Softmax,
    nn.Tanh: Tanh,
}
"""What takes the place of what."""
