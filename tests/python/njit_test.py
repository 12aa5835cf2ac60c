#!/usr/bin/env python3
"""numba and the Python package: compiled functions work on the arrays, on threads that count as
devices; and numba.cuda takes the memory as that of a CUDA device.

Usage: njit_test.py PACKAGE_FOLDER LIBCUDA
LIBCUDA may be empty: then numba.cuda is left out.
"""

import os
import sys
import unittest

import common
from common import COHERENT, ISOLATED

common.prepare("numpy", "numba")
LIBCUDA = sys.argv.pop(2)
os.environ["NUMBA_CUDA_DRIVER"] = LIBCUDA

import numba
import numpy as np

import wherry
from wherry.nopython import thread_attach, thread_detach


# Integers, so that the order of additions does not matter.
@numba.njit
def add_up(values, out):
    for i in range(len(values)):
        out[i] = values[i] * 3 + out[i - 1] if i > 0 else values[i] * 3
    return out[-1]


@numba.njit
def touch_as(device, values):
    failures = thread_attach(device)
    for i in range(len(values)):
        values[i] += i
    return failures + thread_detach()


class Njit(unittest.TestCase):
    def test_a_compiled_function_sees_what_python_sees(self):
        values = wherry.asarray(np.arange(100_000) * 7 % 1000)
        expected = np.cumsum(np.asarray(values) * 3)
        out = wherry.empty(values.shape, values.dtype)
        for place in (ISOLATED, COHERENT, wherry.HOST):
            wherry.prefetch(values, place)
            out[:] = 0
            wherry.prefetch(out, ISOLATED)
            self.assertEqual(add_up(values, out), expected[-1])
            np.testing.assert_array_equal(out, expected)

    def test_a_compiled_function_counts_as_the_device_that_it_attaches_to(self):
        values = wherry.zeros(1 << 18, "i8")
        self.assertEqual(touch_as(COHERENT, values), 0)
        self.assertEqual({extent.holders for extent in wherry.where(values)}, {(COHERENT,)})
        np.testing.assert_array_equal(values, np.arange(len(values)))
        self.assertIsNone(wherry.attached_to())
        self.assertNotEqual(touch_as(ISOLATED, values), 0)

    @unittest.skipUnless(LIBCUDA, "the build has no libcuda.so.1")
    def test_numba_cuda_takes_the_memory(self):
        from numba import cuda
        array = wherry.asarray(np.arange(1000.0))
        theirs = cuda.as_cuda_array(wherry.Managed(array))
        self.assertEqual(theirs.device_ctypes_pointer.value, array.ctypes.data)
        theirs[:10].copy_to_device(np.full(10, -1.0))
        np.testing.assert_array_equal(array[:12], [-1.0] * 10 + [10.0, 11.0])
        np.testing.assert_array_equal(theirs[5:].copy_to_host(), array[5:])
        self.assertTrue(cuda.is_cuda_array(wherry.Managed(array)))


common.main()
