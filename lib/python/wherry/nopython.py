"""C functions for code that runs without Python: numba calls them inside @njit functions.

    from wherry.nopython import thread_attach, thread_detach

    @njit(parallel=True)
    def double(values):
        for device in prange(2):
            thread_attach(device)
            half = len(values) // 2
            values[device * half:(device + 1) * half] *= 2
            thread_detach()

The library must have been started (wherry.devices()). Each function concerns the calling thread
only, and returns a CUresult: 0, or the code of an error.
"""

from ctypes import CFUNCTYPE, c_int

from ._library import library

#: thread_attach(device): the thread counts as this coherent device (wherryThreadAttach).
thread_attach = CFUNCTYPE(c_int, c_int)(("wherryThreadAttach", library))
#: thread_attach_by_cpu(): it counts as the device of its NUMA node (wherryThreadAttachByCpu).
thread_attach_by_cpu = CFUNCTYPE(c_int)(("wherryThreadAttachByCpu", library))
#: thread_detach(): the thread counts as the host again (wherryThreadDetach).
thread_detach = CFUNCTYPE(c_int)(("wherryThreadDetach", library))
