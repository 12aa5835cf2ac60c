"""What the tests of the Python package share: how they find it, its devices, and how they end.

Each test is called with the folder of the package: build/lib/python.
"""

import importlib.util
import os
import sys
import unittest

SKIPPED = 77
ISOLATED, COHERENT = 0, 1
DEVICES = "capacity=64M;kind=coherent,capacity=64M"
PACKAGE = sys.argv[1]


def prepare(*needed):
    """Makes the package importable, with an isolated and a coherent device. Ends the program as
    skipped if a needed module is missing.
    """
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        print("SKIP: no " + ", ".join(f"python3-{name}" for name in missing)
              + " (tools/setup test)")
        sys.exit(SKIPPED)
    for name in list(os.environ):
        if name.startswith(("WHERRY_", "CUDA_")) and name not in ("WHERRY_TRAP",):
            del os.environ[name]
    os.environ |= {"WHERRY_DEVICES": DEVICES, "WHERRY_POLICY": "migrate-always"}
    sys.path.insert(0, PACKAGE)


def main():
    program = unittest.main(module="__main__", argv=sys.argv[:1] + sys.argv[2:], exit=False,
                            verbosity=2)
    sys.exit(0 if program.result.wasSuccessful() else 1)
