#!/usr/bin/env python3
"""The Python package in processes that exit and fork: nothing is freed twice, nothing is printed,
and a child gets an error instead of memory that it does not have.

Usage: processes_test.py PACKAGE_FOLDER
"""

import subprocess
import sys
import unittest

import common

common.prepare("numpy")

START = f"""
import atexit, os, sys, threading
import numpy as np
sys.path.insert(0, {common.PACKAGE!r})
import wherry
"""


class Processes(unittest.TestCase):
    def run_program(self, text):
        """Its output. It must end well and print nothing else."""
        done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", START + text],
                              capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def test_arrays_can_be_used_to_the_last(self):
        self.assertEqual(self.run_program("""
array = wherry.full(1 << 20, 1)
class Last:
    def __del__(self, array=array): print("deleted", array.sum())
last = Last()
stream = wherry.Stream(0)
wherry.prefetch(array, 0, stream)
atexit.register(lambda: print("exit", array.sum()))
"""), f"exit {1 << 20}\ndeleted {1 << 20}\n")

    def test_threads_that_still_run_do_no_harm(self):
        self.run_program("""
array = wherry.full(1 << 20, 1)
def work():
    while True: array[:] = wherry.full(1 << 10, 1).sum()
started = threading.Thread(target=work, daemon=True)
started.start()
""")

    def test_a_forked_child_gets_an_error(self):
        self.assertEqual(self.run_program("""
array = wherry.full(1 << 20, 1)
stream = wherry.Stream(0)
child = os.fork()
if child == 0:
    for call in (lambda: wherry.empty(10), lambda: wherry.where(array), wherry.synchronize,
                 wherry.devices, wherry.Stream, lambda: wherry.prefetch(array, 0)):
        try:
            call()
        except wherry.Error as error:
            assert error.name == "CUDA_ERROR_NOT_INITIALIZED", error
            assert "fork()" in str(error) and "spawn" in str(error), error
        else:
            os._exit(3)
    del array, stream  # neither frees the parent's
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(array.sum(), wherry.where(array)[0].holders)
wherry.prefetch(array, 0, stream)
"""), f"{1 << 20} ('host',)\n")

    def test_a_spawned_child_has_managed_memory_of_its_own(self):
        self.assertEqual(self.run_program("""
import multiprocessing
array = wherry.full(10, 1)
with multiprocessing.get_context("spawn").Pool(1) as pool:
    print(pool.apply(eval, ("__import__('wherry').full(3, 2).sum().item()",)))
"""), "6\n")

    def test_a_policy_is_chosen_before_the_start(self):
        self.run_program("""
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the library writes why
try:
    wherry.set_policy("nonsense")
except wherry.Error as error:
    assert error.name == "CUDA_ERROR_INVALID_VALUE", error
else:
    sys.exit(3)
wherry.set_policy("uvm")
assert wherry.devices()
""")


common.main()
