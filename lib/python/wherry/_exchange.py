"""Managed memory for other libraries: the CUDA array interface and DLPack."""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_void_p, py_object
from typing import Any

from numpy.typing import NDArray

from ._contexts import start
from ._pages import NOT_MANAGED, is_managed

_DLPACK_CUDA_MANAGED = 13


class _TensorHead(ctypes.Structure):
    """The first fields of DLPack's DLManagedTensor."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32)]


_capsule_pointer = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))


class Managed:
    """An array in managed memory, for libraries that take memory of CUDA devices. Keeps the array.

    numba.cuda.as_cuda_array() and CuPy use its CUDA array interface (version 3), and from_dlpack()
    functions its DLPack capsule, of device kDLCUDAManaged. No data is copied.

    Raises ValueError if the array is not in managed memory.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        start()
        if not is_managed(array):
            raise ValueError(NOT_MANAGED)
        #: The array.
        self.array = array

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self.array.__array_interface__

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = dict(self.array.__array_interface__)
        address, read_only = interface["data"]
        # The interface demands the address 0 for arrays without elements.
        interface["data"] = (address if self.array.size > 0 else 0, read_only)
        # No stream: accesses need not wait for any stream.
        return interface | {"version": 3, "stream": None}

    def __dlpack_device__(self) -> tuple[int, int]:
        return _DLPACK_CUDA_MANAGED, 0

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None,
                   dl_device: tuple[int, int] | None = None, copy: bool | None = None) -> Any:
        """Returns a DLPack capsule, which keeps the array until its consumer has freed it.

        All work on the memory is visible at once, so no stream has to wait. Raises BufferError if
        the array is read-only, which DLPack does not support, or for another device or a copy.
        """
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("managed memory is shared as such: without a copy, as memory of "
                              f"the device {self.__dlpack_device__()}")
        # numpy makes the capsule and the functions that free it; only the device is changed.
        capsule = self.array.__dlpack__()
        tensor = _TensorHead.from_address(_capsule_pointer(capsule, b"dltensor"))
        tensor.device_type, tensor.device_id = self.__dlpack_device__()
        return capsule
