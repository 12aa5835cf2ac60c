#!/usr/bin/env python3
"""The Fortran module: the program calls_test with an isolated and a coherent device, and how it
ends after an error for which it has no `stat`.

Usage: run.py CALLS_TEST
"""

import os
import subprocess
import sys

SETTINGS = {"WHERRY_DEVICES": "capacity=64M;kind=coherent,capacity=64M",
            "WHERRY_POLICY": "migrate-always"}


def run(*arguments):
    done = subprocess.run([sys.argv[1], *arguments], env=os.environ | SETTINGS, text=True,
                          capture_output=True)
    return done.returncode, done.stdout, done.stderr


good = run()
ended = run("free twice")
print(good, ended)
assert good == (0, "all as expected\n", "")
assert ended == (1, "", "cuMemFree: CUDA_ERROR_INVALID_VALUE (invalid argument)\n")
