"""Threads that count as a coherent device."""

from __future__ import annotations

import contextlib
import ctypes
from ctypes import c_int
from typing import Iterator, Literal, Optional, SupportsIndex, Union

from ._contexts import device_number, start
from ._library import library

#: For attached(): the thread counts as the coherent device on whose NUMA node it is running.
BY_CPU: Literal["by_cpu"] = "by_cpu"

_HOST = -1


def _attach(to: Union[SupportsIndex, Literal["by_cpu"]]) -> None:
    if isinstance(to, str):
        if to != BY_CPU:
            raise ValueError(f"{to!r} is no device: a number or wherry.BY_CPU")
        library.wherryThreadAttachByCpu()
    else:
        library.wherryThreadAttach(device_number(to))


@contextlib.contextmanager
def attached(to: Union[SupportsIndex, Literal["by_cpu"]]) -> Iterator[None]:
    """Makes the calling thread count as a coherent device in a `with` block, or in a function that
    this decorates.

    Its accesses are the device's: its faults bring pages to the device. At the end the thread
    counts as before. Blocks can be nested. Threads that it starts do not count as the device.

    to: a device, or BY_CPU. Raises Error with CUDA_ERROR_NOT_SUPPORTED if the device is not
    coherent, and with CUDA_ERROR_INVALID_DEVICE if there is none.
    """
    start()
    before, by_cpu = c_int(), c_int()
    library.wherryThreadDevice(ctypes.byref(before), ctypes.byref(by_cpu))
    _attach(to)
    try:
        yield
    finally:
        if by_cpu.value != 0:
            library.wherryThreadAttachByCpu()
        elif before.value != _HOST:
            library.wherryThreadAttach(before.value)
        else:
            library.wherryThreadDetach()


def attached_to() -> Optional[int]:
    """Returns the device that the calling thread counts as now; None means the host."""
    start()
    device = c_int()
    library.wherryThreadDevice(ctypes.byref(device), None)
    return None if device.value == _HOST else device.value
