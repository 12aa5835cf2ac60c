#!/usr/bin/env python3
"""Debian's numba, a client of libcuda.so.1 without knowledge of Wherry, runs its own driver tests.

Every case of the modules below must pass, except those that numba_cases.txt lists with the reason.
A listed case that passes is a failure, too. With WHERRY_TEST_SCALE below 1 only some modules run.
Each module runs in a process of its own, because numba's package as a whole is skipped without
NVVM.

Usage: numba_test.py COMPAT CASES
       numba_test.py --module MODULE     (in each of these processes)
"""

import fnmatch
import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from length import some_of  # noqa: E402

SKIPPED = 77
PACKAGE = "numba.cuda.tests.cudadrv"
MODULES = [
    "test_array_attr", "test_context_stack", "test_cuda_array_slicing", "test_cuda_auto_context",
    "test_cuda_devicerecord", "test_cuda_driver", "test_cuda_memory", "test_cuda_ndarray",
    "test_deallocations", "test_detect", "test_emm_plugins", "test_events", "test_host_alloc",
    "test_init", "test_linker", "test_managed_alloc", "test_pinned", "test_profiler", "test_ptds",
    "test_reset_device", "test_runtime", "test_select_device", "test_streams",
]
PYTHON = "/usr/bin/python3"
TIMEOUT_S = 240
# Some cases require two devices.
SETTINGS = {"WHERRY_DEVICES": "capacity=256M;capacity=256M"}


class Outcomes(unittest.TestResult):
    """Each case's outcome: "ok", or the last line of its error."""

    def __init__(self):
        super().__init__()
        self.outcomes = {}

    def note(self, test, outcome):
        names = test.id().split(".")
        self.outcomes[".".join(names[-3:]) if len(names) > 2 else test.id()] = outcome

    def addSuccess(self, test):
        self.note(test, "ok")

    def addSkip(self, test, reason):
        self.note(test, f"skipped: {reason}")

    def addError(self, test, error):
        self.note(test, f"{error[0].__name__}: {error[1]}".splitlines()[0])

    addFailure = addError


def run_here(module):
    outcomes = Outcomes()
    unittest.defaultTestLoader.loadTestsFromName(f"{PACKAGE}.{module}").run(outcomes)
    print(json.dumps(outcomes.outcomes))


def run_module(module, environment):
    try:
        run = subprocess.run([PYTHON, __file__, "--module", module], env=environment,
                             timeout=TIMEOUT_S, text=True,
                             stdout=subprocess.PIPE)
        return json.loads(run.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return {f"{module}.all": f"the process failed: {error!r}"}


def listed_cases(path):
    """Reads the list: pattern -> reason."""
    rows = [line.split(None, 1) for line in open(path) if line.strip() and not line.startswith("#")]
    return {pattern: reason.strip() for pattern, reason in rows}


def main():
    compat, cases = sys.argv[1:]
    installed = subprocess.run([PYTHON, "-c", "import numba"], capture_output=True).returncode == 0
    if not installed:
        print("SKIP: no numba (package python3-numba)")
        sys.exit(SKIPPED)
    # The caller's environment may select real GPUs.
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    environment = os.environ | SETTINGS | {"NUMBA_CUDA_DRIVER": f"{compat}/libcuda.so.1",
                                           "LD_LIBRARY_PATH": compat}
    outcomes = {}
    modules = some_of(MODULES, "modules")
    for module in modules:
        outcomes |= run_module(module, environment)

    listed = listed_cases(cases)
    wrong, used, passed = [], set(), 0
    for case, outcome in sorted(outcomes.items()):
        patterns = {pattern for pattern in listed if fnmatch.fnmatchcase(case, pattern)}
        used |= patterns
        passed += outcome == "ok"
        if outcome.startswith("NvvmSupportError"):  # newer versions need NVVM in more cases
            continue
        if outcome == "ok" and patterns:
            wrong.append(f"{case}: passes, but {' '.join(sorted(patterns))} is listed")
        elif outcome != "ok" and not patterns:
            wrong.append(f"{case}: {outcome}")
    if len(modules) == len(MODULES):
        wrong += [f"listed, but there is no such case: {pattern}"
                  for pattern in sorted(listed.keys() - used)]
    if passed == 0:
        wrong.append("no case passed")
    print("\n".join(wrong))
    print(f"{len(outcomes)} cases, {passed} passed, {len(outcomes) - passed} did not")
    sys.exit(1 if wrong else 0)


# A case starts processes that import this file again.
if __name__ == "__main__":
    if sys.argv[1] == "--module":
        run_here(sys.argv[2])
    else:
        main()
