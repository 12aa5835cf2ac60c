"""Arrays in managed memory."""

from __future__ import annotations

import ctypes
import math
import operator
import sys
import weakref
from typing import Any, Iterable, Literal, Sequence, SupportsIndex, Union

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ._contexts import on_device
from ._library import library, release
from ._pages import is_managed

Shape = Union[SupportsIndex, Sequence[SupportsIndex]]

_GLOBAL = 1


class Allocation:
    """Managed memory as numpy sees it: bytes. It is the base of the arrays that use and keep it.

    The memory is freed with this object. When the interpreter exits, the process's end frees it, so
    that threads and exit handlers can use arrays until then.
    """

    def __init__(self, nbytes: int) -> None:
        address = ctypes.c_size_t()
        with on_device():
            # The library does not allocate 0 bytes.
            library.cuMemAllocManaged(ctypes.byref(address), max(nbytes, 1), _GLOBAL)
        weakref.finalize(self, release, library.cuMemFree_v2, address.value).atexit = False
        self.__array_interface__ = {"version": 3, "shape": (nbytes,), "typestr": "|u1",
                                    "data": (address.value, False)}


def _dimensions(shape: Shape) -> tuple[int, ...]:
    lengths = tuple(map(operator.index, shape if isinstance(shape, Iterable) else (shape,)))
    if any(length < 0 for length in lengths):
        raise ValueError("negative dimensions are not allowed")
    return lengths


def empty(shape: Shape, dtype: DTypeLike = float, order: Literal["C", "F"] = "C") -> NDArray[Any]:
    """Returns a new array in managed memory; its elements are zero.

    It is an ordinary numpy array. Its memory is freed when no array uses it any more. A page takes
    memory from its first access on.

    Raises OutOfMemoryError (a MemoryError) if there is no space for that many bytes, ValueError if
    no array can have that shape, and TypeError if elements would be Python objects.
    """
    element = np.dtype(dtype)
    if element.hasobject:
        raise TypeError(f"dtype {element}: managed memory cannot hold Python objects")
    lengths = _dimensions(shape)
    nbytes = math.prod(lengths) * element.itemsize
    if nbytes > sys.maxsize:
        raise ValueError(f"an array of {nbytes} bytes is larger than the address space")
    return np.ndarray(lengths, element, np.asarray(Allocation(nbytes)), order=order)


def zeros(shape: Shape, dtype: DTypeLike = float, order: Literal["C", "F"] = "C") -> NDArray[Any]:
    """Returns a new array like empty(), whose elements are zero."""
    return empty(shape, dtype, order)


def full(shape: Shape, fill_value: Any, dtype: DTypeLike = None,
         order: Literal["C", "F"] = "C") -> NDArray[Any]:
    """Returns a new array like empty(), whose elements are `fill_value`; by default of its type."""
    array = empty(shape, np.asarray(fill_value).dtype if dtype is None else dtype, order)
    array[...] = fill_value
    return array


def asarray(values: ArrayLike, dtype: DTypeLike = None) -> NDArray[Any]:
    """Returns the values as an array in managed memory: `values` itself if it is one, else a copy.

    A copy keeps the order of the dimensions. Raises the errors of empty().
    """
    source = np.asarray(values, dtype)
    if is_managed(source):
        return source
    in_columns = source.flags.f_contiguous and not source.flags.c_contiguous
    array = empty(source.shape, source.dtype, "F" if in_columns else "C")
    array[...] = source
    return array
