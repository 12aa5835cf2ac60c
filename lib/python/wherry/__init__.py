"""Managed memory of Wherry for numpy: arrays that are valid on the host and on every device, and
whose pages move to the processor that accesses them.

    import wherry

    x = wherry.empty((1000, 1000))          # an ordinary numpy array
    wherry.prefetch(x, 0)                   # its pages go to device 0
    wherry.synchronize()
    print(wherry.where(x))                  # one extent, held by device 0

Everything here may be called from any thread. In a child made by fork() managed memory does not
exist: calls raise Error there, and an access to an array ends the child. multiprocessing's method
"spawn" starts children that can use managed memory of their own.
"""

from ._arrays import asarray, empty, full, zeros
from ._build import VERSION as __version__
from ._contexts import Stream, synchronize
from ._errors import Error, OutOfMemoryError
from ._exchange import Managed
from ._pages import Advice, Extent, advise, explain, is_managed, name, prefetch, where
from ._processors import (HOST, Device, HostNode, Place, Processor, Stats, devices, set_policy,
                          stats)
from ._threads import BY_CPU, attached, attached_to

__all__ = [
    "BY_CPU", "HOST", "Advice", "Device", "Error", "Extent", "HostNode", "Managed",
    "OutOfMemoryError", "Place", "Processor", "Stats", "Stream", "__version__", "advise",
    "asarray", "attached", "attached_to", "devices", "empty", "explain", "full", "is_managed",
    "name", "prefetch", "set_policy", "stats", "synchronize", "where", "zeros",
]
