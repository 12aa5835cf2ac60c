"""libwherry.so: its functions with their parameters' types. Each raises Error if it fails.

Every function may be called from any thread.
"""

from __future__ import annotations

import ctypes
import os
import re
from ctypes import POINTER, c_char_p, c_int, c_int32, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

from . import _build
from ._errors import Error, OutOfMemoryError

OUT_OF_MEMORY = 2
NOT_INITIALIZED = 3


class Location(ctypes.Structure):
    """CUmemLocation."""

    DEVICE, HOST, HOST_NODE = 1, 2, 3

    _fields_ = [("kind", c_int), ("id", c_int)]


class PageState(ctypes.Structure):
    """wherryPageState."""

    _fields_ = [("size", c_size_t), ("resident", c_uint32), ("mapped_read", c_uint32),
                ("mapped_write", c_uint32), ("node", c_int32)]


# CUdeviceptr is an integer.
_ADDRESS = c_size_t
_PARAMETERS = {
    "cuCtxPopCurrent_v2": [POINTER(c_void_p)],
    "cuCtxPushCurrent_v2": [c_void_p],
    "cuCtxSynchronize": [],
    "cuDeviceGetAttribute": [POINTER(c_int), c_int, c_int],
    "cuDeviceGetCount": [POINTER(c_int)],
    "cuDeviceGetName": [c_char_p, c_int, c_int],
    "cuDevicePrimaryCtxRetain": [POINTER(c_void_p), c_int],
    "cuDeviceTotalMem_v2": [POINTER(c_size_t), c_int],
    "cuInit": [c_uint],
    "cuMemAdvise_v2": [_ADDRESS, c_size_t, c_int, Location],
    "cuMemAllocManaged": [POINTER(_ADDRESS), c_size_t, c_uint],
    "cuMemFree_v2": [_ADDRESS],
    "cuMemGetInfo_v2": [POINTER(c_size_t), POINTER(c_size_t)],
    "cuMemPrefetchAsync_v2": [_ADDRESS, c_size_t, Location, c_uint, c_void_p],
    "cuStreamCreate": [POINTER(c_void_p), c_uint],
    "cuStreamDestroy_v2": [c_void_p],
    "cuStreamSynchronize": [c_void_p],
    "wherryDescribePage": [_ADDRESS, c_char_p, c_size_t, POINTER(c_size_t)],
    "wherryGetDeviceProcess": [c_int, POINTER(c_int)],
    "wherryGetPageState": [_ADDRESS, POINTER(PageState)],
    "wherryGetStats": [c_void_p],
    "wherryNameRange": [_ADDRESS, c_size_t, c_char_p],
    "wherrySetPolicy": [c_char_p],
    "wherryThreadAttach": [c_int],
    "wherryThreadAttachByCpu": [],
    "wherryThreadDetach": [],
    "wherryThreadDevice": [POINTER(c_int), POINTER(c_int)],
}


def _load() -> ctypes.CDLL:
    way = os.path.relpath(_build.LIBRARY_FOLDER, _build.PACKAGE_FOLDER)
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), way, "libwherry.so.0")
    if os.path.exists(path):
        return ctypes.CDLL(path)
    try:
        return ctypes.CDLL("libwherry.so.0")
    except OSError as failure:
        raise ImportError(f"wherry: there is no {os.path.normpath(path)}, and the dynamic loader "
                          f"finds none ({failure}): set LD_LIBRARY_PATH to its folder") from None


library = _load()
_loaded_by = os.getpid()


def _text(function: Any, code: int) -> str | None:
    text = c_char_p()
    function(code, ctypes.byref(text))
    return text.value.decode() if text.value else None


def error(call: str, code: int, advice: str = "") -> Error:
    """Returns the exception for a CUresult other than CUDA_SUCCESS."""
    if code == NOT_INITIALIZED and os.getpid() != _loaded_by:
        advice = ("a child made by fork() cannot use managed memory; start processes with the "
                  "method 'spawn' of multiprocessing")
    kind = OutOfMemoryError if code == OUT_OF_MEMORY else Error
    return kind(call, code, _text(library.cuGetErrorName, code) or f"error {code}",
                _text(library.cuGetErrorString, code) or "unknown", advice)


def _check(result: int, function: Any, arguments: tuple[Any, ...]) -> None:
    if result != 0:
        raise error(re.sub(r"_v\d+$", "", function.__name__), result)


for _name, _types in _PARAMETERS.items():
    _function = getattr(library, _name)
    _function.argtypes = _types
    _function.restype = c_int
    _function.errcheck = _check


def release(function: Any, handle: int) -> None:
    """Calls a function that frees an object. Does nothing in a child made by fork()."""
    try:
        function(handle)
    except Error as failure:
        if failure.code != NOT_INITIALIZED:
            raise
