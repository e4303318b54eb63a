"""state_dicts from and to Duet's checkpoints, which are safetensors files with torch's names and layouts."""

from __future__ import annotations

import os
from typing import Mapping

import torch
from torch import Tensor

from .. import _duet
from .._errors import UnsupportedError

_TYPES = {"float32": torch.float32, "float64": torch.float64, "float16": torch.float16,
          "bfloat16": torch.bfloat16, "uint8": torch.uint8, "int32": torch.int32}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


def load_state_dict(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The parameters and buffers of a checkpoint of `trainer` (or of any safetensors file), without the optimizer's.

    num_batches_tracked is no part of Duet's checkpoints; model.load_state_dict() does without. Raises DataError for a file that is damaged, or no safetensors."""
    tensors, _ = _duet.read_safetensors(os.fspath(path))
    state = {}
    for name, dtype, shape, data in tensors:
        if name.startswith("optimizer."):
            continue
        flat = torch.frombuffer(bytearray(data), dtype=_TYPES[dtype]) if data else torch.empty(0, dtype=_TYPES[dtype])
        state[name] = flat.reshape(shape)
    return state


def load_metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    """What a checkpoint says besides its tensors: the configuration as YAML, the step, the data's fingerprint."""
    return _duet.read_safetensors(os.fspath(path), False)[1]


def save_state_dict(state: Mapping[str, Tensor], path: str | os.PathLike[str],
                    metadata: Mapping[str, str] | None = None) -> None:
    """Writes a state_dict as Duet's `--init-from` and `predict --config ... --checkpoint` read it: float32, without
    num_batches_tracked. The file is the old one or the whole new one, whatever happens."""
    tensors = []
    for name, tensor in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        tensor = tensor.detach().cpu()
        if tensor.dtype in (torch.bfloat16, torch.float16):
            tensor = tensor.float()
        if tensor.dtype not in _NAMES:
            raise UnsupportedError(f"{name} is {tensor.dtype}, which Duet's checkpoints do not hold")
        tensors.append((name, tensor.resolve_neg().contiguous()))
    entries = [(name, _NAMES[t.dtype], list(t.shape), t.data_ptr()) for name, t in tensors]
    _duet.write_safetensors(os.fspath(path), entries, dict(metadata or {}))
