"""Prepared layers, each made once for its problem, and the arrays that calls of them run on."""

from __future__ import annotations

import functools
import json
import operator
import sys
from typing import Any, Iterable, Mapping, NamedTuple, Sequence, SupportsIndex

from . import _duet
from ._errors import ConfigError

MOST_LAYERS = 1024
"""Prepared layers that are kept; the one that was not used for longest goes first."""


class Desc(NamedTuple):
    """What an array is made of. `layout` is "nchw", or "nhwc" where memory has channels last."""

    shape: tuple[int, ...]
    dtype: str
    layout: str = "nchw"


class Parameter(NamedTuple):
    name: str
    desc: Desc
    trained: bool


class Prepared:
    """A prepared layer, and what it says of itself, asked for once."""

    __slots__ = ("layer", "inputs", "gradients", "outputs", "parameters", "backward_passes", "workspace", "state_bytes",
                 "reads_output", "gpu", "forward", "backward", "only_output_is_like_input",
                 "has_buffers", "untrainable")

    def __init__(self, layer: _duet.Layer, gpu: bool):
        self.layer = layer
        self.inputs = tuple(_desc(d) for d in layer.inputs)
        self.gradients = tuple(layer.gradients)
        self.outputs = tuple(_desc(d) for d in layer.outputs)
        self.parameters = tuple(Parameter(name, _desc(d), trained) for name, d, trained in layer.parameters)
        self.backward_passes = tuple(layer.passes[1:])
        self.workspace = {name: layer.workspace_bytes(name) for name in layer.passes}
        self.state_bytes = layer.state_bytes
        self.reads_output = layer.reads_output
        self.untrainable = layer.untrainable
        self.has_buffers = any(not p.trained for p in self.parameters)
        self.gpu = gpu
        self.only_output_is_like_input = self.outputs == self.inputs and len(self.inputs) == 1
        self.forward = layer.forward
        self.backward = layer.backward

    def __str__(self) -> str:
        return f"{self.layer.type} ({self.layer.problem})"


def _desc(desc: tuple[Sequence[int], str, str]) -> Desc:
    return Desc(tuple(desc[0]), desc[1], desc[2])


@functools.lru_cache(maxsize=MOST_LAYERS)
def prepare(
    type: str,
    keys: str,
    inputs: tuple[Desc, ...],
    backend: str = "",
    math: str = "fp32",
    device: str = "cpu",
    gradient: bool = True,
    seed: int = 0,
    stream: int = 0,
) -> Prepared:
    """The layer of these words, made when it is first asked for: algorithms are searched then."""
    layer = _duet.Layer(type, keys, list(inputs), backend, math, device, seed, stream, gradient)
    return Prepared(layer, device == "gpu")


def forget() -> None:
    """Lets go of all prepared layers, and of what files of kernels said before they changed."""
    prepare.cache_clear()
    engine = sys.modules.get("duet.torch._engine")
    if engine:
        engine.forget()


def keys_of(**keys: Any) -> str:
    """A layer's keys as one text, which prepare() takes."""
    return json_text({k: v for k, v in keys.items() if v is not None})


def _plain(value: Any) -> Any:
    """A number or array of NumPy or torch as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise ConfigError(f"{value!r} is a {type(value).__name__}: expected numbers, texts, or lists of them")


json_text = json.JSONEncoder(sort_keys=True, default=_plain).encode
"""Options and keys as JSON; NumPy's numbers are numbers."""


def backend_text(backend: str | Mapping[str, str] | None) -> str:
    """A family or an id as it is; {pass: id} as one text."""
    if backend is None:
        return ""
    if isinstance(backend, str):
        return backend
    return json.dumps(dict(backend))


def math_of(dtype: str, math: str | None) -> str:
    """bfloat16 arrays are computed in bf16, and others in fp32 unless tf32 is asked for."""
    if dtype == "bfloat16":
        return "bf16"
    return math or "fp32"


def whole_numbers(value: SupportsIndex | Iterable[SupportsIndex]) -> tuple[int, ...]:
    """Of one whole number or several, which may be NumPy's. Raises ConfigError for anything else."""
    try:
        if hasattr(value, "__index__") and not getattr(value, "shape", ()):  # arrays of several numbers have it too
            return (operator.index(value),)
        return tuple(operator.index(each) for each in value)
    except TypeError:
        raise ConfigError(f"expected a whole number or several, found {value!r}") from None


def pair(value: SupportsIndex | Iterable[SupportsIndex]) -> tuple[int, int]:
    """(height, width) of one whole number or two."""
    numbers = whole_numbers(value)
    if len(numbers) == 1:
        return (numbers[0], numbers[0])
    if len(numbers) != 2:
        raise ConfigError(f"expected a whole number or two, found {value!r}")
    return (numbers[0], numbers[1])
