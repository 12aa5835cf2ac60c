"""Processors: the host and the devices, and their counters."""

from __future__ import annotations

import ctypes
import dataclasses
from ctypes import c_int, c_size_t, c_uint64
from typing import Literal, NamedTuple, Optional, SupportsIndex, Union

from ._contexts import device_count, device_number, on_device, start
from ._library import Location, library

#: The host, as a processor and as a place for memory.
HOST: Literal["host"] = "host"


class HostNode(NamedTuple):
    """One NUMA node of the host, as a place for memory."""

    node: int


#: A device's number, or HOST.
Processor = Union[int, Literal["host"]]
#: Where memory can be: a device (its number or a Device), HOST, or a HostNode.
Place = Union[SupportsIndex, Literal["host"], HostNode]

_MAX_PROCESSORS = 9
_NAME_BYTES = 256
# CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES
_USES_HOST_PAGE_TABLES = 100


def location(place: Place) -> Location:
    """Raises ValueError or TypeError if `place` is not a place."""
    if isinstance(place, str):
        if place != HOST:
            raise ValueError(f"{place!r} is no place: a device's number, wherry.HOST or "
                             "wherry.HostNode(node)")
        return Location(Location.HOST, 0)
    if isinstance(place, HostNode):
        return Location(Location.HOST_NODE, device_number(place.node))
    return Location(Location.DEVICE, device_number(place))


def processors_of(mask: int) -> tuple[Processor, ...]:
    """Returns the processors of a C function's mask: bit 0 is the host, bit 1 + d device d."""
    return tuple(HOST if bit == 0 else bit - 1 for bit in range(_MAX_PROCESSORS) if mask >> bit & 1)


@dataclasses.dataclass(frozen=True)
class Device:
    """A device. It can be passed instead of its number."""

    number: int
    name: str
    #: The capacity of its memory, in bytes.
    total_memory: int
    #: Whether threads of this program can count as the device: see attached().
    coherent: bool
    #: The process that runs its kernels; for a coherent device this process.
    process: int

    def __index__(self) -> int:
        return self.number

    @property
    def free_memory(self) -> int:
        """The bytes of its memory that are unused at this moment."""
        unused, total = c_size_t(), c_size_t()
        with on_device(self.number):
            library.cuMemGetInfo_v2(ctypes.byref(unused), ctypes.byref(total))
        return unused.value


def _device(number: int) -> Device:
    name = ctypes.create_string_buffer(_NAME_BYTES)
    total, coherent, process = c_size_t(), c_int(), c_int()
    library.cuDeviceGetName(name, _NAME_BYTES, number)
    library.cuDeviceTotalMem_v2(ctypes.byref(total), number)
    library.cuDeviceGetAttribute(ctypes.byref(coherent), _USES_HOST_PAGE_TABLES, number)
    library.wherryGetDeviceProcess(number, ctypes.byref(process))
    return Device(number, name.value.decode(), total.value, coherent.value != 0, process.value)


def devices() -> list[Device]:
    """Returns the devices that WHERRY_DEVICES chooses. Starts the library."""
    return [_device(number) for number in range(device_count())]


class Stats(NamedTuple):
    """Counters since the library was started. A page has 4096 bytes. docs/stats.md explains each.

    Counters that may be None exist only for all processors together.
    """

    faults_missing: int
    faults_minor: int
    faults_write_protect: int
    populated: int
    migrated_in: int
    migrated_out: int
    duplicated: int
    collapsed: int
    mapped_remotely: int
    evicted: int
    prefetched: int
    bytes_copied: int
    service_ns: int
    thrashing_detected: Optional[int] = None
    throttled: Optional[int] = None
    thrash_pinned: Optional[int] = None
    thrash_unpinned: Optional[int] = None
    held: int = 0


_TOTAL_ONLY = ("thrashing_detected", "throttled", "thrash_pinned", "thrash_unpinned")
# Counters that are not in wherryProcessorStats, but in an array of wherryStats.
_LATER = ("held",)
_OF_EACH = tuple(name for name in Stats._fields if name not in _TOTAL_ONLY + _LATER)


class _ProcessorStats(ctypes.Structure):
    """wherryProcessorStats."""

    _fields_ = [(name, c_uint64) for name in _OF_EACH]


class _Stats(ctypes.Structure):
    """wherryStats."""

    _fields_ = [("size", c_size_t), *_ProcessorStats._fields_, ("processors", c_uint64),
                ("processor", _ProcessorStats * _MAX_PROCESSORS),
                *((name, c_uint64) for name in _TOTAL_ONLY),
                *(field for name in _LATER
                  for field in ((name, c_uint64),
                                (f"processor_{name}", c_uint64 * _MAX_PROCESSORS)))]


def stats(processor: SupportsIndex | Literal["host"] | None = None) -> Stats:
    """Returns the counters of all processors together, or of one. Starts the library.

    Each counter is exact once the accesses that it counts have returned. Raises ValueError if there
    is no such processor.
    """
    start()
    found = _Stats(size=ctypes.sizeof(_Stats))
    library.wherryGetStats(ctypes.byref(found))
    if processor is None:
        return Stats(*(getattr(found, name) for name in Stats._fields))
    index = 0 if processor == HOST else 1 + device_number(processor)
    if index >= found.processors:
        raise ValueError(f"there is no device {index - 1}: there are {found.processors - 1}")
    return Stats(**{name: getattr(found.processor[index], name) for name in _OF_EACH},
                 **{name: getattr(found, f"processor_{name}")[index] for name in _LATER})


def set_policy(policy: str) -> None:
    """Chooses the policy that decides where pages go, in the syntax of WHERRY_POLICY.

    `wherry policies` lists them. Must be called before anything else starts the library. Raises
    Error with CUDA_ERROR_INVALID_VALUE if there is no such policy, and with
    CUDA_ERROR_NOT_PERMITTED if the library has been started.
    """
    library.wherrySetPolicy(policy.encode())
