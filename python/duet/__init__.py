"""Duet: hand-written CUDA kernels beside NVIDIA's libraries, from Python.

- duet.check(...), duet.bench(...), duet.compare(...): is it right, is it faster, does the network still learn?
- duet.ops: layers as functions on arrays of NumPy, torch, CuPy and JAX, by the implementation you name.
- duet.torch: modules that take the place of torch.nn's, with autograd and torch.compile (imported by name).
- duet.load_kernels(path): a kernel of your own as one more implementation.
"""

from __future__ import annotations

import os
from typing import NamedTuple, Sequence

from . import _duet, ops
from ._errors import (
    ConfigError,
    DataError,
    DeviceError,
    Error,
    InterruptedError,
    OutOfMemoryError,
    RunError,
    UnsupportedError,
)
from ._layers import forget
from ._tables import Results, bench, check, compare

__all__ = [
    "ConfigError", "DataError", "DeviceError", "Error", "InterruptedError", "LayerType", "OutOfMemoryError",
    "Results", "RunError", "UnsupportedError", "bench", "built_with_cuda", "check", "compare", "forget",
    "gpu_available", "layer_types", "load_kernels", "ops",
]

__version__ = _duet.version().partition(" ")[0]


class LayerType(NamedTuple):
    """A layer type, and the implementations that it has."""

    name: str
    summary: str
    implementations: list[str]


def layer_types() -> dict[str, LayerType]:
    """All layer types by name, with their implementations, loaded kernels among them."""
    return {name: LayerType(name, summary, ids) for name, summary, ids in _duet.layer_types()}


_kernel_paths: list[str] = []


def load_kernels(*paths: str | os.PathLike[str]) -> None:
    """Loads files LAYER_custom_NAME.cu, or all of a folder: each is then an implementation `custom_NAME` of its
    layer type, for duet.ops, duet.torch, check, bench and compare. Loading a file again takes it as it is now."""
    texts = [os.path.abspath(os.fspath(path)) for path in paths]
    _duet.load_kernels(texts)
    _kernel_paths.extend(text for text in texts if text not in _kernel_paths)
    forget()


def gpu_available() -> bool:
    """Whether Duet was built with CUDA and there is a GPU."""
    return _duet.gpu_available()


def built_with_cuda() -> bool:
    """Whether this build has the families custom and cudnn."""
    return _duet.built_with_cuda()
