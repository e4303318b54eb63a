"""The types of modules.py: torch's arguments, with backend and math."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import torch
from torch import nn

_Backend: TypeAlias = str | Mapping[str, str] | None
_Math: TypeAlias = Literal["fp32", "tf32"]
_Pair: TypeAlias = int | tuple[int, int]
_Device: TypeAlias = torch.device | str | int | None

class _Backed:
    backend: _Backend
    math: str
    def set_backend(self, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class Conv2d(_Backed, nn.Conv2d):
    def __init__(self, in_channels: int, out_channels: int, kernel_size: _Pair, stride: _Pair = 1, padding: str
                 | _Pair = 0, dilation: _Pair = 1, groups: int = 1, bias: bool = True, padding_mode:
                 Literal["zeros", "reflect", "replicate", "circular"] = "zeros", device: _Device = None, dtype:
                 torch.dtype | None = None, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class Linear(_Backed, nn.Linear):
    def __init__(self, in_features: int, out_features: int, bias: bool = True, device: _Device = None, dtype:
                 torch.dtype | None = None, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class BatchNorm2d(_Backed, nn.BatchNorm2d):
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: _Device = None, dtype: torch.dtype | None = None, *,
                 backend: _Backend = None, math: _Math = "fp32") -> None: ...

class BatchNorm1d(_Backed, nn.BatchNorm1d):
    def __init__(self, num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: _Device = None, dtype: torch.dtype | None = None, *,
                 backend: _Backend = None, math: _Math = "fp32") -> None: ...

class LayerNorm(_Backed, nn.LayerNorm):
    def __init__(self, normalized_shape: int | Sequence[int], eps: float = 1e-05, elementwise_affine: bool =
                 True, bias: bool = True, device: _Device = None, dtype: torch.dtype | None = None, *, backend:
                 _Backend = None, math: _Math = "fp32") -> None: ...

class ReLU(_Backed, nn.ReLU):
    def __init__(self, inplace: bool = False, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class LeakyReLU(_Backed, nn.LeakyReLU):
    def __init__(self, negative_slope: float = 0.01, inplace: bool = False, *, backend: _Backend = None, math:
                 _Math = "fp32") -> None: ...

class Sigmoid(_Backed, nn.Sigmoid):
    def __init__(self, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class Tanh(_Backed, nn.Tanh):
    def __init__(self, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class SiLU(_Backed, nn.SiLU):
    def __init__(self, inplace: bool = False, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class GELU(_Backed, nn.GELU):
    def __init__(self, approximate: str = "none", *, backend: _Backend = None, math: _Math = "fp32") -> None:
                 ...

class Softmax(_Backed, nn.Softmax):
    def __init__(self, dim: int | None = None, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class MaxPool2d(_Backed, nn.MaxPool2d):
    def __init__(self, kernel_size: _Pair, stride: _Pair | None = None, padding: _Pair = 0, dilation: _Pair = 1,
                 return_indices: bool = False, ceil_mode: bool = False, *, backend: _Backend = None, math: _Math
                 = "fp32") -> None: ...

class AvgPool2d(_Backed, nn.AvgPool2d):
    def __init__(self, kernel_size: _Pair, stride: _Pair | None = None, padding: _Pair = 0, ceil_mode: bool =
                 False, count_include_pad: bool = True, divisor_override: int | None = None, *, backend:
                 _Backend = None, math: _Math = "fp32") -> None: ...

class AdaptiveAvgPool2d(_Backed, nn.AdaptiveAvgPool2d):
    def __init__(self, output_size: int | tuple[int | None, ...] | None, *, backend: _Backend = None, math:
                 _Math = "fp32") -> None: ...

class PixelShuffle(_Backed, nn.PixelShuffle):
    def __init__(self, upscale_factor: int, *, backend: _Backend = None, math: _Math = "fp32") -> None: ...

class CrossEntropyLoss(_Backed, nn.CrossEntropyLoss):
    def __init__(self, weight: torch.Tensor | None = None, size_average: bool | None = None, ignore_index: int =
                 -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0, *,
                 backend: _Backend = None, math: _Math = "fp32") -> None: ...

class MultiMarginLoss(_Backed, nn.MultiMarginLoss):
    def __init__(self, p: int = 1, margin: float = 1.0, weight: torch.Tensor | None = None, size_average: bool |
                 None = None, reduce: bool | None = None, reduction: str = "mean", *, backend: _Backend = None,
                 math: _Math = "fp32") -> None: ...

MODULES: dict[type[nn.Module], type[nn.Module]]
