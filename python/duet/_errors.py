"""What Duet raises. The extension module raises these by name."""


class Error(Exception):
    """Base of all errors of Duet."""


class ConfigError(Error, ValueError):
    """A mistake in what was asked for: a shape, a name, a value, a stride."""


class DataError(Error, ValueError):
    """A data set or another file is missing, truncated or corrupt."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but nothing here can do it: this implementation, this build or this machine."""


class RunError(Error, RuntimeError):
    """It failed for another reason: the disk, a process that crashed."""


class DeviceError(Error, RuntimeError):
    """A call of CUDA, cuDNN, cuBLAS or BLAS failed."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory, of the host or the GPU."""


class InterruptedError(Error):
    """A measurement was interrupted."""
