"""Pages of arrays: advice, prefetches, and the place of pages with its reason."""

from __future__ import annotations

import contextlib
import ctypes
import enum
from ctypes import c_size_t
from typing import Any, Iterator, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._contexts import on_device, start, stream_handle
from ._errors import Error
from ._library import Location, PageState, error, library
from ._processors import HOST, Place, Processor, location, processors_of

PAGE = 4096
_NOT_SUCH_MEMORY = (1, 101)  # CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE


class Advice(enum.IntEnum):
    """How the program uses memory. docs/semantics.md says what follows from each."""

    #: The memory is mostly read: each processor that reads it gets a copy; a write leaves one.
    SET_READ_MOSTLY = 1
    UNSET_READ_MOSTLY = 2
    #: The memory should be in this processor's memory. It does not move at once.
    SET_PREFERRED_LOCATION = 3
    UNSET_PREFERRED_LOCATION = 4
    #: This processor uses the memory, wherever it is.
    SET_ACCESSED_BY = 5
    UNSET_ACCESSED_BY = 6


NOT_MANAGED = ("the array is not in managed memory; wherry.empty and wherry.asarray make arrays "
               "that are")
_NEEDS_NO_PLACE = (Advice.SET_READ_MOSTLY, Advice.UNSET_READ_MOSTLY,
                   Advice.UNSET_PREFERRED_LOCATION)


class Extent(NamedTuple):
    """Consecutive bytes of an array whose pages are in the same place."""

    #: The first byte and the end, counted from the array's lowest address.
    start: int
    stop: int
    #: The processors whose memory has a copy. Empty if no processor has accessed the pages yet.
    holders: tuple[Processor, ...]
    #: The NUMA node of the first copy, as Linux says; -1 if there is no copy.
    node: int

    @property
    def nbytes(self) -> int:
        return self.stop - self.start


def _require_array(array: NDArray[Any]) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"a numpy array is needed, not {type(array).__name__}")


def _page_state(address: int) -> PageState:
    state = PageState(size=ctypes.sizeof(PageState))
    library.wherryGetPageState(address, ctypes.byref(state))
    return state


def is_managed(array: NDArray[Any]) -> bool:
    """Whether the array is in memory that the library has allocated."""
    _require_array(array)
    try:
        _page_state(array.ctypes.data)
    except Error:
        return False
    return True


def _lowest_address(array: NDArray[Any]) -> int:
    # Negative strides lead from the first element to lower addresses.
    return array.ctypes.data + sum((count - 1) * stride for stride, count
                                   in zip(array.strides, array.shape) if stride < 0)


def pieces(array: NDArray[Any]) -> Iterator[tuple[int, int]]:
    """Yields (address, bytes) of pieces of memory, which together overlap the pages that the
    elements overlap, and no others. If no gap between elements has a page, this is one piece.
    """
    _require_array(array)
    if array.size == 0:
        return
    length = array.itemsize
    apart: list[tuple[int, int]] = []
    steps = sorted((abs(stride), count) for stride, count in zip(array.strides, array.shape))
    for stride, count in steps:
        # A gap below the size of a page contains no whole page.
        if not apart and stride - length < PAGE:
            length += (count - 1) * stride
        else:
            apart.append((stride, count))
    lowest = _lowest_address(array)
    for index in np.ndindex(*(count for _, count in apart)):
        yield lowest + sum(i * stride for i, (stride, _) in zip(index, apart)), length


@contextlib.contextmanager
def _errors_about(array: NDArray[Any]) -> Iterator[None]:
    """Adds to an error that the array is not in managed memory, if it is not."""
    try:
        yield
    except Error as failure:
        if failure.code not in _NOT_SUCH_MEMORY or is_managed(array):
            raise
        raise error(failure.call, failure.code, NOT_MANAGED) from None


def _advice(advice: Advice | str) -> Advice:
    if not isinstance(advice, str):
        return Advice(advice)
    if advice.upper() not in Advice.__members__:
        names = ", ".join(name.lower() for name in Advice.__members__)
        raise ValueError(f"unknown advice {advice!r}: it is one of {names}")
    return Advice[advice.upper()]


def advise(array: NDArray[Any], advice: Advice | str, place: Place | None = None) -> None:
    """Tells how the program will use the pages that the elements overlap. Contents never change.

    advice: an Advice, or its name ("set_read_mostly").
    place: the processor that is meant. For a preferred location it is a device, HOST or a HostNode;
    for accessed-by a device or HOST. Other advice needs no place.

    In a view with gaps, only pages with elements are meant. Ordinary arrays can be advised if there
    is a coherent device. Raises ValueError for an unknown advice or a missing place; Error with
    CUDA_ERROR_INVALID_VALUE for any other array, or a node that does not exist, and with
    CUDA_ERROR_INVALID_DEVICE for a device that does not exist. Any thread may call it.
    """
    advice = _advice(advice)
    if place is None and advice not in _NEEDS_NO_PLACE:
        raise ValueError(f"{advice.name.lower()} needs a place: a device's number or wherry.HOST")
    where = location(HOST if place is None else place)
    with on_device(), _errors_about(array):
        for address, nbytes in pieces(array):
            library.cuMemAdvise_v2(address, nbytes, advice, where)


def prefetch(array: NDArray[Any], place: Place, stream: Any = None) -> None:
    """Moves the pages that the elements overlap to a place, ahead of their use.

    Returns at once; synchronize() waits for the move. The array can be used meanwhile.

    place: a device, HOST or a HostNode.
    stream: the prefetch begins when earlier work of this stream has finished. It is a Stream, an
    object with __cuda_stream__, or the number of a CUstream. With None it is the default stream of
    the device, or of device 0 if the place is the host.

    In a view with gaps, only pages with elements are meant. Ordinary arrays can be prefetched to
    coherent devices and back. Raises Error with CUDA_ERROR_INVALID_VALUE for any other array, or a
    node that does not exist, and with CUDA_ERROR_INVALID_DEVICE for a device that does not exist.
    Any thread may call it.
    """
    where = location(place)
    handle = stream_handle(stream)
    with on_device(where.id if where.kind == Location.DEVICE else 0), _errors_about(array):
        for address, nbytes in pieces(array):
            library.cuMemPrefetchAsync_v2(address, nbytes, where, 0, handle)


def where(array: NDArray[Any]) -> list[Extent]:
    """Returns where the pages are that the elements overlap, without accessing them.

    A page that moves at this moment is reported at its old or its new place. Raises Error with
    CUDA_ERROR_INVALID_VALUE if the array is not in managed memory. Any thread may call it.
    """
    start()
    found: list[Extent] = []
    with _errors_about(array):
        for address, nbytes in pieces(array):
            _add_extents(found, address, nbytes, _lowest_address(array))
    return found


def _add_extents(found: list[Extent], address: int, nbytes: int, origin: int) -> None:
    end = address + nbytes
    for page in range(address - address % PAGE, end, PAGE):
        state = _page_state(page)
        begin = max(page, address) - origin
        here = Extent(begin, min(page + PAGE, end) - origin, processors_of(state.resident),
                      state.node)
        last = found[-1] if found else None
        if last is not None and (last.stop, *last[2:]) == (begin, *here[2:]):
            found[-1] = here._replace(start=last.start)
        else:
            found.append(here)


def name(array: NDArray[Any], text: str) -> None:
    """Gives the array's memory a name, which reports on a trace use. It has no other effect.

    text: 1 to 255 bytes of UTF-8. Raises Error with CUDA_ERROR_INVALID_VALUE for any other text, or
    if the array is not in managed memory; ValueError if the text has a zero byte. Any thread may
    call it.
    """
    if "\0" in text:
        raise ValueError("a name has no zero bytes")
    start()
    with _errors_about(array):
        for address, nbytes in pieces(array):
            library.wherryNameRange(address, nbytes, text.encode())


def explain(array: NDArray[Any]) -> str:
    """Returns why the page of the first element is where it is: its location, its advice and the
    latest decisions about it, as lines of text. Raises Error with CUDA_ERROR_INVALID_VALUE if the
    array is not in managed memory. Any thread may call it.
    """
    _require_array(array)
    start()
    needed = c_size_t()
    text = ctypes.create_string_buffer(1)
    with _errors_about(array):
        # Decisions may be added between the call that gets the length and the one that gets the
        # text.
        while needed.value == 0 or needed.value > len(text):
            text = ctypes.create_string_buffer(max(needed.value, 1))
            library.wherryDescribePage(array.ctypes.data, text, len(text), ctypes.byref(needed))
    return text.value.decode()
