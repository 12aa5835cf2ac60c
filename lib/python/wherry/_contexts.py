"""Contexts and streams. Most calls need a current context, and Python code sets none by itself.

Outside of a call the calling thread's current context is never changed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import weakref
from ctypes import c_int, c_void_p
from typing import Any, Iterator, SupportsIndex

from ._library import error, library, release

_NON_BLOCKING = 1
_INVALID_DEVICE = 101


def start() -> None:
    """Starts the library, unless it has been started."""
    library.cuInit(0)


def device_count() -> int:
    start()
    count = c_int()
    library.cuDeviceGetCount(ctypes.byref(count))
    return count.value


def device_number(device: SupportsIndex) -> int:
    """Returns the number of a device that a caller has named.

    Raises ValueError if no device can have that number, and TypeError if it is not an integer.
    """
    number = operator.index(device)
    if not 0 <= number < 1 << 31:
        raise ValueError(f"device {number}: devices are numbered from 0")
    return number


# A primary context stays the same while it has a user. This module is one until the process ends.
@functools.lru_cache(maxsize=None)
def _primary_context(device: int) -> c_void_p:
    if device >= device_count():
        raise error("cuDevicePrimaryCtxRetain", _INVALID_DEVICE,
                    f"there is no device {device}: there are {device_count()}")
    context = c_void_p()
    library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    return context


@contextlib.contextmanager
def on_device(device: int = 0) -> Iterator[None]:
    """Makes the device's primary context current.

    Managed memory belongs to no context: device 0 serves calls that only need any context.
    """
    start()
    library.cuCtxPushCurrent_v2(_primary_context(device))
    try:
        yield
    finally:
        library.cuCtxPopCurrent_v2(None)


class Stream:
    """A queue of work for one device, which runs in order.

    Prefetches of different streams do not wait for each other. Any thread may use it.
    """

    def __init__(self, device: SupportsIndex = 0) -> None:
        handle = c_void_p()
        with on_device(device_number(device)):
            library.cuStreamCreate(ctypes.byref(handle), _NON_BLOCKING)
        #: The CUstream, as a number.
        self.handle: int = handle.value or 0
        # Submitted work still finishes. When the process ends, the stream ends with it.
        weakref.finalize(self, release, library.cuStreamDestroy_v2, self.handle).atexit = False

    def synchronize(self) -> None:
        """Waits until all work that was submitted so far has finished.

        Raises Error if the device has failed.
        """
        library.cuStreamSynchronize(self.handle)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


def stream_handle(stream: Any) -> int | None:
    """Returns the handle of a Stream, an object with __cuda_stream__, or a number."""
    if stream is None:
        return None
    protocol = getattr(stream, "__cuda_stream__", None)
    return operator.index(stream) if protocol is None else protocol()[1]


def synchronize(device: SupportsIndex | None = None) -> None:
    """Waits until all work that was submitted to the device has finished; by default all devices.

    Raises Error if a device has failed.
    """
    devices = range(device_count()) if device is None else [device_number(device)]
    for number in devices:
        with on_device(number):
            library.cuCtxSynchronize()
