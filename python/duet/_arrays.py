"""Arrays of NumPy, torch, CuPy and whatever hands its memory over by DLPack, without copies."""

from __future__ import annotations

import functools
import sys
from typing import Any

from . import _duet
from ._errors import ConfigError, UnsupportedError
from ._layers import Desc


_KIND_OF: dict[type, Any] = {}
"""By class, for those that were seen."""


class Kind:
    """How arrays of one framework are looked at and made."""

    name = "numpy"

    def describe(self, array: Any, name: str) -> tuple[int, Desc]:
        """(address, desc). Raises in terms of `name` for what no layer takes."""
        address, desc = _duet.describe(array, name)
        return address, Desc(tuple(desc[0]), desc[1], desc[2])

    def empty(self, desc: Desc, like: Any) -> tuple[Any, int]:
        """Memory of a desc on the device of `like`: (array, address)."""
        numpy = _numpy()
        dtype = _bfloat16() if desc.dtype == "bfloat16" else desc.dtype
        array = numpy.empty(_memory_shape(desc), dtype)
        return _logical(array, desc), _duet.address(array)

    def device(self, array: Any) -> str:
        return "cpu"

    def stream(self, array: Any) -> int:
        return 0

    def finish(self, array: Any) -> Any:
        """What the user gets of an array that empty() made."""
        return array


class Jax(Kind):
    """In the host's memory, results are NumPy memory that JAX takes over. On a GPU, they are arrays that JAX
    has just made and nobody else knows; JAX tells nothing of its streams, so each side waits for the other."""

    name = "jax"

    def describe(self, array: Any, name: str) -> tuple[int, Desc]:
        if self.device(array) == "cpu":
            return super().describe(array, name)
        dtype = str(array.dtype)
        if dtype not in ("float32", "bfloat16", "int32"):
            raise UnsupportedError(_gpu_takes(name, dtype))
        return array.block_until_ready().unsafe_buffer_pointer(), Desc(tuple(array.shape), dtype)

    def empty(self, desc: Desc, like: Any) -> tuple[Any, int]:
        if self.device(like) == "cpu":
            return super().empty(desc, like)
        if _memory_shape(desc) != desc.shape:
            raise UnsupportedError("JAX's arrays are row-major, and the result would be channels last")
        import jax.numpy

        _duet.synchronize()  # JAX may give memory that a workspace before had
        array = jax.numpy.empty(desc.shape, desc.dtype, device=like.device).block_until_ready()
        return array, array.unsafe_buffer_pointer()

    def device(self, array: Any) -> str:
        import jax

        if isinstance(array, jax.core.Tracer):
            raise UnsupportedError("the array is one that JAX traces; call this outside of jax.jit, grad and vmap")
        if not hasattr(array, "devices"):  # NumPy's, on the way to finish()
            return "cpu"
        devices = array.devices()
        if len(devices) > 1:
            raise UnsupportedError(f"the array is spread over {len(devices)} devices; Duet runs on one")
        device = next(iter(devices))
        if device.platform == "cpu":
            return "cpu"
        if device.platform != "gpu":
            raise UnsupportedError(f"Duet runs on the CPU and on NVIDIA's GPUs, not on '{device}'")
        check_gpu(device.local_hardware_id, 0, "jax.default_device")
        return "gpu"

    def finish(self, array: Any) -> Any:
        if not isinstance(array, _numpy().ndarray):
            _duet.synchronize()
            return array
        import jax.dlpack

        # JAX knows row-major arrays alone.
        return jax.dlpack.from_dlpack(_numpy().ascontiguousarray(array))


class Torch(Kind):
    name = "torch"

    def describe(self, array: Any, name: str) -> tuple[int, Desc]:
        desc = torch_desc(array, name)
        return array.data_ptr(), desc

    def empty(self, desc: Desc, like: Any) -> tuple[Any, int]:
        torch = sys.modules["torch"]
        layout = torch.channels_last if desc.layout == "nhwc" else torch.contiguous_format
        made = torch.empty(
            desc.shape, dtype=getattr(torch, desc.dtype), device=like.device, memory_format=layout
        )
        return made, made.data_ptr()

    def device(self, array: Any) -> str:
        return torch_device(array)

    def stream(self, array: Any) -> int:
        return torch_stream(array)


class CuPy(Kind):
    """On CuPy's current stream."""

    name = "cupy"

    def describe(self, array: Any, name: str) -> tuple[int, Desc]:
        dtype = str(array.dtype)
        layout = None
        if array.flags.c_contiguous:
            layout = "nchw"
        elif array.ndim == 4 and array.transpose(0, 2, 3, 1).flags.c_contiguous:
            layout = "nhwc"
        if layout is None:
            raise ConfigError(
                f"{name} has strides {array.strides} (bytes), which is neither row-major nor channels "
                f"last; copy it: cupy.ascontiguousarray({name})"
            )
        if dtype not in ("float32", "bfloat16", "int32"):
            raise UnsupportedError(_gpu_takes(name, dtype))
        return array.data.ptr, Desc(tuple(array.shape), dtype, layout)

    def empty(self, desc: Desc, like: Any) -> tuple[Any, int]:
        import cupy

        dtype = like.dtype if desc.dtype == "bfloat16" else desc.dtype
        array = cupy.empty(_memory_shape(desc), dtype)
        return _logical(array, desc), array.data.ptr

    def device(self, array: Any) -> str:
        import cupy

        check_gpu(array.device.id, cupy.cuda.runtime.getDevice(), "cupy.cuda.Device")
        return "gpu"

    def stream(self, array: Any) -> int:
        import cupy

        return cupy.cuda.get_current_stream().ptr


_KINDS = {"numpy": Kind(), "torch": Torch(), "cupy": CuPy(), "jax": Jax(), "jaxlib": Jax()}


def kind_of(array: Any) -> Kind:
    """Of the framework that the array's class comes from. Raises TypeError for what is no array."""
    known = _KIND_OF.get(type(array))
    if known:
        return known
    for each in type(array).__mro__:
        kind = _KINDS.get(each.__module__.partition(".")[0])
        if kind:
            _KIND_OF[type(array)] = kind
            return kind
    if not (hasattr(array, "__dlpack__") or hasattr(array, "__array_interface__")):
        raise TypeError(
            f"expected an array of NumPy, torch, CuPy or JAX, not {type(array).__name__}; "
            "try numpy.asarray(...)"
        )
    return _KINDS["numpy"]


_TORCH_DTYPES: dict[Any, str] = {}


def torch_dtypes() -> dict[Any, str]:
    """Names of the types that layers take, by torch's dtype."""
    if not _TORCH_DTYPES:
        torch = sys.modules["torch"]
        for name in ("float32", "float64", "bfloat16", "int32"):
            _TORCH_DTYPES[getattr(torch, name)] = name
    return _TORCH_DTYPES


def torch_desc(tensor: Any, name: str) -> Desc:
    """Raises in terms of `name` for types and strides that no layer takes."""
    dtype = torch_dtypes().get(tensor.dtype)
    if dtype is None:
        to = f"{name}.float()" if tensor.is_floating_point() else f"{name}.float(), or {name}.int() for labels"
        raise UnsupportedError(
            f"{name} is {tensor.dtype}: layers take float32, float64 and bfloat16, and labels as "
            f"int32; convert it, e.g. {to}"
        )
    torch = sys.modules["torch"]
    if tensor.layout is not torch.strided:
        raise UnsupportedError(f"{name} is of layout {tensor.layout}: layers take dense tensors; convert it: "
                               f"{name}.to_dense()")
    if tensor.is_neg():  # no complex tensor is here, which alone may be a lazy conjugate
        raise ConfigError(f"{name} is negated on paper alone (is_neg()), and its memory holds the values before; "
                          f"copy it: {name}.resolve_neg()")
    if tensor.is_contiguous():
        return Desc(tuple(tensor.shape), dtype)
    if tensor.dim() == 4 and tensor.is_contiguous(memory_format=torch.channels_last):
        return Desc(tuple(tensor.shape), dtype, "nhwc")
    raise ConfigError(
        f"{name} ({tuple(tensor.shape)}) has strides {tuple(tensor.stride())}, which is neither "
        f"contiguous nor channels_last; copy it: {name}.contiguous()"
    )


_gpu: list[int] = []
"""The index of the one GPU that this process's layers are on, once there is one."""


def check_gpu(index: int, current: int, enter: str) -> None:
    """Raises for a GPU that is not CUDA's current one, and for a second one."""
    if index != current:
        raise ConfigError(f"the array is on GPU {index}, and CUDA's current one is {current}; put the call under "
                          f"'with {enter}({index}):'")
    if not _gpu:
        _gpu.append(index)
    if _gpu[0] != index:
        raise UnsupportedError(f"Duet runs on one GPU of a process, here on GPU {_gpu[0]}, and the array is on GPU "
                               f"{index}; give each GPU a process of its own")


def torch_device(tensor: Any) -> str:
    """"cpu" or "gpu". Raises for other devices, and for a GPU that is not CUDA's current one."""
    return torch_device_of(tensor.device)


def torch_device_of(device: Any) -> str:
    if device.type == "cpu":
        return "cpu"
    if device.type != "cuda":
        raise UnsupportedError(f"Duet runs on the CPU and on NVIDIA's GPUs, not on '{device}'")
    check_gpu(device.index, sys.modules["torch"].cuda.current_device(), "torch.cuda.device")
    return "gpu"


def torch_stream(tensor: Any) -> int:
    if tensor.device.type == "cpu":
        return 0
    return sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream


def _gpu_takes(name: str, dtype: str) -> str:
    return (
        f"{name} is {dtype}: layers on a GPU take float32 and bfloat16, and labels as int32; "
        f"convert it, e.g. {name}.astype('float32')"
    )


def _memory_shape(desc: Desc) -> tuple[int, ...]:
    if desc.layout != "nhwc" or len(desc.shape) != 4:
        return desc.shape
    n, c, h, w = desc.shape
    return (n, h, w, c)


def _logical(array: Any, desc: Desc) -> Any:
    nhwc = desc.layout == "nhwc" and len(desc.shape) == 4
    return array.transpose(0, 3, 1, 2) if nhwc else array


@functools.cache
def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise UnsupportedError("results are NumPy arrays here; install NumPy: pip install numpy") from None
    return numpy


@functools.cache
def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise UnsupportedError(
            "NumPy has no bfloat16 of its own; install it: pip install ml_dtypes, or use torch"
        ) from None
    return ml_dtypes.bfloat16
