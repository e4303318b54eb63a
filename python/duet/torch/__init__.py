"""Duet in PyTorch: modules, replace(), checkpoints, and operators torch.ops.duet.*.

>>> conv = duet.torch.Conv2d(64, 128, 3, backend="custom_winograd")
>>> duet.torch.replace(model, {nn.Conv2d: "custom", nn.Linear: "cudnn"})

The modules work under autograd, torch.compile(fullgraph=True), autocast in bfloat16, in contiguous and channels_last
tensors. There is no second derivative. On a GPU work goes to torch's current stream, memory is torch's, and nothing
waits; prepare a module by a first call of each shape before a CUDA graph is captured."""

from __future__ import annotations

try:
    import torch as _torch
except ImportError:
    raise ImportError("duet.torch needs PyTorch: pip install torch") from None

from ._checkpoints import load_metadata, load_state_dict, save_state_dict
from ._engine import forget
from ._replace import replace
from .modules import (
    GELU,
    MODULES,
    AdaptiveAvgPool2d,
    AvgPool2d,
    BatchNorm1d,
    BatchNorm2d,
    Conv2d,
    CrossEntropyLoss,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    MultiMarginLoss,
    PixelShuffle,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)

__all__ = [
    "AdaptiveAvgPool2d", "AvgPool2d", "BatchNorm1d", "BatchNorm2d", "Conv2d", "CrossEntropyLoss", "GELU",
    "LayerNorm", "LeakyReLU", "Linear", "MODULES", "MaxPool2d", "MultiMarginLoss", "PixelShuffle", "ReLU",
    "Sigmoid", "SiLU", "Softmax", "Tanh", "forget", "load_metadata", "load_state_dict", "replace", "save_state_dict",
]
