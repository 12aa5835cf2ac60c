#!/usr/bin/env python3
"""The Python package: arrays, where their pages are, advice, counters, errors, attached threads.

Usage: wherry_test.py PACKAGE_FOLDER
"""

import ctypes
import gc
import os
import pickle
import threading
import unittest

import common
from common import COHERENT, ISOLATED

common.prepare("numpy")

import numpy as np

import wherry

PAGE = 4096
BLOCK = 2 << 20
INVALID_VALUE = 1


def memory_at(address, nbytes):
    """An array of these bytes, which keeps nothing."""
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8)


def holders(array):
    return [extent.holders for extent in wherry.where(array)]


def moved(array, place):
    wherry.prefetch(array, place)
    wherry.synchronize()
    return array


class Arrays(unittest.TestCase):
    def test_an_array_is_an_ordinary_numpy_array_of_zeros(self):
        for shape, dtype, order in (((), float, "C"), (7, "i2", "C"), ((3, 5, 1000), "c16", "F"),
                                    (np.int64(9), [("key", "i4"), ("value", "f8")], "C"),
                                    ([4, 4], "M8[ns]", "F"),
                                    (np.array([2, 3]), "?", "C"), (10, "U7", "C")):
            with self.subTest(shape=shape, dtype=dtype):
                expected = np.zeros(shape, dtype, order)
                array = wherry.empty(shape, dtype, order)
                self.assertIs(type(array), np.ndarray)
                self.assertEqual((array.shape, array.dtype, array.strides),
                                 (expected.shape, expected.dtype, expected.strides))
                self.assertTrue(array.flags.writeable and array.flags.aligned)
                np.testing.assert_array_equal(array, expected)
                self.assertTrue(wherry.is_managed(array))

    def test_computations_are_exactly_those_of_other_arrays(self):
        random = np.random.default_rng(24)
        left, right = random.normal(size=(300, 200)), random.normal(size=(200, 400))
        ours, theirs = wherry.asarray(left), wherry.asarray(np.asfortranarray(right))
        moved(ours, ISOLATED)
        moved(theirs, COHERENT)
        np.testing.assert_array_equal(ours, left)
        np.testing.assert_array_equal(theirs, right)
        out = wherry.empty((300, 400))
        np.matmul(ours, theirs, out=out)
        np.testing.assert_array_equal(out, np.matmul(left, np.asfortranarray(right)))
        np.cumsum(ours, axis=1, out=ours)
        np.testing.assert_array_equal(ours, np.cumsum(left, axis=1))

    def test_full_and_asarray_take_values(self):
        np.testing.assert_array_equal(wherry.full((2, 3), 7), np.full((2, 3), 7))
        self.assertEqual(wherry.full(2, 7).dtype, np.full(2, 7).dtype)
        self.assertEqual(wherry.full(2, 7, "f4").dtype, np.float32)
        self.assertTrue(wherry.is_managed(wherry.asarray([1, 2, 3])))
        columns = wherry.asarray(np.zeros((3, 4), order="F"))
        self.assertTrue(columns.flags.f_contiguous)
        self.assertIs(wherry.asarray(columns), columns)
        self.assertFalse(wherry.is_managed(np.zeros(3)))

    def test_arrays_without_elements(self):
        for shape in (0, (0,), (5, 0, 3)):
            array = wherry.empty(shape)
            self.assertEqual(array.size, 0)
            wherry.advise(array, "set_read_mostly")
            wherry.prefetch(array, ISOLATED)
            wherry.name(array, "nothing")
            self.assertEqual(wherry.where(array), [])
            self.assertEqual(wherry.Managed(array).__cuda_array_interface__["data"], (0, False))

    def test_wrong_shapes_and_types_are_refused_as_by_numpy(self):
        for shape in (-1, (3, -1)):
            with self.assertRaisesRegex(ValueError, "negative dimensions"):
                wherry.empty(shape)
        with self.assertRaises(TypeError):
            wherry.empty(2.5)
        with self.assertRaisesRegex(TypeError, "Python objects"):
            wherry.empty(3, object)
        with self.assertRaisesRegex(TypeError, "Python objects"):
            wherry.asarray(["a", None])

    def test_arrays_that_are_too_large_are_memory_errors(self):
        for shape in (1 << 58, (1 << 30, 1 << 28)):
            with self.assertRaises(MemoryError) as refused:
                wherry.empty(shape, "u1")
            self.assertIsInstance(refused.exception, wherry.Error)
            self.assertEqual(refused.exception.name, "CUDA_ERROR_OUT_OF_MEMORY")
        for shape in (1 << 61, 1 << 64, (1 << 40, 1 << 40)):
            with self.assertRaises(ValueError):
                wherry.empty(shape)


class Lifetime(unittest.TestCase):
    def setUp(self):
        gc.collect()

    def is_live(self, address):
        return wherry.is_managed(memory_at(address, 1))

    def test_memory_lives_as_long_as_the_last_view(self):
        array = wherry.full(3 * BLOCK // 8, 5.0)
        address = array.ctypes.data
        for view in (lambda a: a[10:20], lambda a: a[::-7], memoryview, np.asarray,
                     lambda a: a.view("i8").view("f8"), lambda a: a.reshape(1, -1).T[:1]):
            array = view(array)
            if isinstance(array, memoryview):
                array = np.asarray(array)
            self.assertTrue(self.is_live(address))
            self.assertEqual(array.flat[0], 5.0)
        del array
        self.assertFalse(self.is_live(address))

    def test_memory_of_an_object_cycle_is_freed(self):
        class Node:
            pass
        node = Node()
        node.array, node.itself = wherry.empty(100), node
        address = node.array.ctypes.data
        del node
        gc.collect()
        self.assertFalse(self.is_live(address))

    def test_freed_memory_can_be_allocated_again_without_end(self):
        capacity = wherry.devices()[ISOLATED].total_memory
        for _ in range(200):
            array = wherry.empty(capacity, "u1")
            array[::BLOCK] = 1
        threads = [threading.Thread(target=lambda: [wherry.empty(1000) for _ in range(100)])
                   for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def test_exported_memory_lives_as_long_as_its_importer(self):
        array = wherry.full(1000, 3)
        address = array.ctypes.data
        imported = np.from_dlpack(wherry.Managed(array))
        interface = wherry.Managed(array)
        del array
        self.assertEqual(imported[999], 3)
        del imported
        self.assertTrue(self.is_live(address))
        np.testing.assert_array_equal(np.asarray(interface), np.full(1000, 3))
        del interface
        self.assertFalse(self.is_live(address))


class Pages(unittest.TestCase):
    def test_prefetched_pages_are_where_they_were_sent(self):
        array = wherry.full(BLOCK // 8, 1.5)
        for place, holder in ((ISOLATED, 0), (wherry.devices()[COHERENT], 1), ("host", "host"),
                              (wherry.HostNode(0), wherry.HOST)):
            moved(array, place)
            (extent,) = wherry.where(array)
            self.assertEqual((extent.start, extent.stop, extent.holders), (0, BLOCK, (holder,)))
            self.assertGreaterEqual(extent.node, 0)
        np.testing.assert_array_equal(array, 1.5)

    def test_absent_pages_have_no_holder(self):
        array = wherry.empty(4 * PAGE, "u1")
        self.assertEqual(wherry.where(array), [wherry.Extent(0, 4 * PAGE, (), -1)])
        self.assertEqual(wherry.where(array[PAGE + 10:2 * PAGE + 5]),
                         [wherry.Extent(0, PAGE - 5, (), -1)])

    def test_an_access_brings_pages_to_the_host(self):
        array = moved(wherry.empty(BLOCK, "u1"), ISOLATED)
        array[0] = 1
        self.assertEqual(holders(array[:1]), [("host",)])
        self.assertEqual(holders(array[-1:]), [(ISOLATED,)])

    def test_a_view_with_gaps_means_the_pages_of_its_elements(self):
        rows = wherry.full((8, 16 * PAGE), 1, "u1")
        for view in (rows[:, 5 * PAGE:5 * PAGE + 1], rows[::-1, 5 * PAGE:5 * PAGE + 1][::2],
                     rows.reshape(8, 16, PAGE)[1:3, 4::4, ::9]):
            moved(rows, "host")
            # The pages of each element.
            pages = {(view.ctypes.data - rows.ctypes.data
                      + sum(i * stride for i, stride in zip(index, view.strides))) // PAGE
                     for index in np.ndindex(view.shape)}
            moved(view, ISOLATED)
            for page in range(8 * 16):
                part = rows.reshape(-1)[page * PAGE:(page + 1) * PAGE]
                self.assertEqual(holders(part), [(ISOLATED,) if page in pages else ("host",)])
        np.testing.assert_array_equal(rows, 1)

    def test_small_gaps_do_not_split_a_range(self):
        array = wherry.full((100, 100), 2.0)
        before = wherry.stats(ISOLATED).prefetched
        moved(array[:, ::3].T, ISOLATED)
        self.assertEqual(wherry.stats(ISOLATED).prefetched - before, -(-array.nbytes // PAGE))

    def test_prefetches_of_a_stream_run_in_order(self):
        array = wherry.full(BLOCK, 1, "u1")
        stream = wherry.Stream(ISOLATED)
        for handle in (stream, stream.handle):
            wherry.prefetch(array, "host", handle)
            wherry.prefetch(array, ISOLATED, handle)
            stream.synchronize()
            self.assertEqual(holders(array), [(ISOLATED,)])

    def test_advice_decides_where_accesses_find_pages(self):
        array = moved(wherry.full(16 * PAGE, 1, "u1"), ISOLATED)
        wherry.advise(array, "set_read_mostly")
        self.assertEqual(int(array.sum()), 16 * PAGE)
        self.assertEqual(holders(array), [("host", ISOLATED)])
        wherry.advise(array, wherry.Advice.UNSET_READ_MOSTLY)
        self.assertEqual(len(holders(array)[0]), 1)
        wherry.advise(array, "SET_PREFERRED_LOCATION", ISOLATED)
        moved(array, ISOLATED)
        array += 1
        self.assertEqual(holders(array), [(ISOLATED,)])  # the host has mapped it there
        self.assertIn("preferred", wherry.explain(array[PAGE:]).lower())

    def test_counters_count_what_happened(self):
        array = wherry.full(64 * PAGE, 1, "u1")
        total, each = wherry.stats(), wherry.stats(ISOLATED)
        moved(array, ISOLATED)
        self.assertEqual(wherry.stats(ISOLATED).prefetched - each.prefetched, 64)
        self.assertEqual(wherry.stats().prefetched - total.prefetched, 64)
        self.assertEqual((total.held, each.held), (0, 0))
        self.assertIsNone(each.throttled)
        self.assertIsNotNone(total.throttled)
        self.assertEqual(wherry.stats().populated,
                         sum(wherry.stats(place).populated for place in ("host", 0, 1)))

    def test_names_are_checked(self):
        array = wherry.empty(1000)
        wherry.name(array, "matrix.values")
        wherry.name(array[::2], "über")
        for text, kind in (("", wherry.Error), ("x" * 256, wherry.Error), ("a\0b", ValueError)):
            with self.assertRaises(kind):
                wherry.name(array, text)

    def test_ordinary_arrays_can_be_prefetched_for_coherent_devices(self):
        array = np.ones(BLOCK, "u1")
        moved(array, COHERENT)
        np.testing.assert_array_equal(array, 1)
        with self.assertRaisesRegex(wherry.Error, "not in managed memory"):
            wherry.where(array)


class Threads(unittest.TestCase):
    def touched_by(self, *to):
        array = wherry.empty(BLOCK, "u1")
        array[::PAGE] = 1
        return holders(array)

    def test_an_attached_thread_counts_as_its_device(self):
        self.assertEqual(self.touched_by(), [("host",)])
        with wherry.attached(COHERENT):
            self.assertEqual(wherry.attached_to(), COHERENT)
            self.assertEqual(self.touched_by(), [(COHERENT,)])
            with wherry.attached(wherry.devices()[COHERENT]):
                pass
            self.assertEqual(wherry.attached_to(), COHERENT)
            seen = []
            thread = threading.Thread(target=lambda: seen.append(wherry.attached_to()))
            thread.start()
            thread.join()
            self.assertEqual(seen, [None])
        self.assertIsNone(wherry.attached_to())

    def test_the_thread_is_detached_after_an_exception(self):
        with self.assertRaises(KeyError), wherry.attached(COHERENT):
            raise KeyError
        self.assertIsNone(wherry.attached_to())

    def test_attached_decorates_functions(self):
        self.assertEqual(wherry.attached(COHERENT)(self.touched_by)(), [(COHERENT,)])

    def test_an_isolated_device_cannot_have_threads(self):
        with self.assertRaises(wherry.Error) as refused:
            with wherry.attached(ISOLATED):
                self.fail("attached")
        self.assertEqual(refused.exception.name, "CUDA_ERROR_NOT_SUPPORTED")


class Exchange(unittest.TestCase):
    def test_the_cuda_array_interface_describes_the_array(self):
        array = wherry.empty((4, 6), "f4")
        self.assertEqual(wherry.Managed(array).__cuda_array_interface__, {
            "version": 3, "shape": (4, 6), "typestr": "<f4", "descr": [("", "<f4")],
            "data": (array.ctypes.data, False), "strides": None, "stream": None})
        view = array[1::2, ::-1]
        view.flags.writeable = False
        interface = wherry.Managed(view).__cuda_array_interface__
        self.assertEqual((interface["strides"], interface["data"]),
                         (view.strides, (view.ctypes.data, True)))

    def test_dlpack_shares_the_memory_as_that_of_a_cuda_device(self):
        array = wherry.full((4, 6), 2, "i4")
        shared = wherry.Managed(array[:, ::2])
        self.assertEqual(shared.__dlpack_device__(), (13, 0))
        imported = np.from_dlpack(shared)
        array[3, 4] = 9
        np.testing.assert_array_equal(imported, array[:, ::2])
        self.assertEqual(imported.ctypes.data, array.ctypes.data)

    def test_a_capsule_of_which_nobody_takes_the_memory_frees_it(self):
        array = wherry.empty(10)
        address = array.ctypes.data
        capsule = wherry.Managed(array).__dlpack__(stream=1)
        del array
        self.assertTrue(wherry.is_managed(memory_at(address, 1)))
        del capsule
        self.assertFalse(wherry.is_managed(memory_at(address, 1)))

    def test_what_cannot_be_shared_is_refused(self):
        with self.assertRaisesRegex(ValueError, "not in managed memory"):
            wherry.Managed(np.zeros(3))
        shared = wherry.Managed(wherry.empty(3))
        for options in ({"copy": True}, {"dl_device": (1, 0)}):
            with self.assertRaises(BufferError):
                shared.__dlpack__(**options)


class Errors(unittest.TestCase):
    def test_an_error_has_the_call_the_code_and_what_they_mean(self):
        with self.assertRaises(wherry.Error) as refused:
            wherry.prefetch(wherry.empty(3), 7)
        error = refused.exception
        self.assertEqual((error.call, error.name, error.code, error.description),
                         ("cuDevicePrimaryCtxRetain", "CUDA_ERROR_INVALID_DEVICE", 101,
                          "invalid device ordinal"))
        self.assertEqual(str(error), "cuDevicePrimaryCtxRetain: CUDA_ERROR_INVALID_DEVICE "
                         "(invalid device ordinal): there is no device 7: there are 2")
        self.assertEqual(str(pickle.loads(pickle.dumps(error))), str(error))

    def test_memory_that_is_not_managed_is_named_as_the_reason(self):
        for call in (lambda a: wherry.prefetch(a, ISOLATED),
                     lambda a: wherry.advise(a, "set_accessed_by", ISOLATED),
                     wherry.where, wherry.explain, lambda a: wherry.name(a, "x")):
            with self.assertRaisesRegex(wherry.Error, "not in managed memory; wherry.empty and"):
                call(np.zeros(1000))
            with self.assertRaisesRegex(TypeError, "a numpy array is needed, not list"):
                call([1, 2])

    def test_unknown_words_and_places_are_refused(self):
        array = wherry.empty(3)
        with self.assertRaisesRegex(ValueError, "unknown advice 'read': it is one of set_read_mo"):
            wherry.advise(array, "read")
        with self.assertRaisesRegex(ValueError, "needs a place"):
            wherry.advise(array, "set_accessed_by")
        for place in (-1, 1 << 32, "gpu"):
            with self.assertRaises(ValueError):
                wherry.prefetch(array, place)
            with self.assertRaises((ValueError, TypeError)):
                wherry.stats(place)
        with self.assertRaisesRegex(ValueError, "there is no device 5: there are 2"):
            wherry.stats(5)
        with self.assertRaises(TypeError):
            wherry.prefetch(array, 1.5)

    def test_a_policy_cannot_change_after_the_start(self):
        wherry.devices()
        with self.assertRaises(wherry.Error) as refused:
            wherry.set_policy("uvm")
        self.assertEqual(refused.exception.name, "CUDA_ERROR_NOT_PERMITTED")

    def test_devices_are_those_of_the_environment(self):
        isolated, coherent = wherry.devices()
        self.assertEqual((isolated.coherent, coherent.coherent), (False, True))
        self.assertEqual((isolated.total_memory, coherent.total_memory), (64 << 20, 64 << 20))
        self.assertEqual(coherent.process, os.getpid())
        self.assertNotEqual(isolated.process, os.getpid())
        self.assertLessEqual(isolated.free_memory, isolated.total_memory)


common.main()
