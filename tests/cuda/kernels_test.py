#!/usr/bin/env python3
"""Kernels that `wherry nvcc` has compiled run on isolated and on coherent devices: the examples,
the features of the language, marks in a trace, and kernels that fail.

Usage: kernels_test.py ROOT BUILD WHERRY
"""

import re

from common import DEVICES, Tests, run_all, some_of

FAILURES = {
    "assert": ("cudaErrorAssert", "failures.cu:11: wrong_assertion: block: [1,0,0], "
               "thread: [3,0,0] Assertion `i < n` failed"),
    "deadlock": ("cudaErrorLaunchFailure", "kernel deadlock: the threads of block (0,0,0) wait"),
    "grid": ("cudaErrorLaunchFailure", "kernel ordinary: grid.sync() of several blocks needs"),
    "recursion": ("cudaSuccess", ""),
    "overflow": ("cudaErrorLaunchFailure", "needs more than the 128 KiB of stack"),
    "illegal": ("cudaErrorIllegalAddress", "touched 0x40"),
    "trap": ("cudaErrorLaunchFailure", "kernel trap called __trap()"),
}


class Kernels(Tests):
    # Each prints one line that says that nothing is wrong.
    def examples(self):
        for source in some_of(sorted((self.root / "docs/examples/cuda").glob("*.cu")),
                              "examples", below_full=0.4):
            program = self.folder / source.stem
            self.nvcc("-O1", source, "-o", program)
            for devices in DEVICES:
                said = self.run([program], devices).stdout
                pattern = rf"{source.stem}: (0 of \d+ .* are wrong|(\d+), expected \2)\n"
                self.check(f"{source.name} on {devices} devices", re.fullmatch(pattern, said), said)

    def language(self):
        others = some_of(("idioms", "graphs", "cooperative"), "programs", below_full=0.3)
        for name, expected in (("language", r"block 0 says hello\n0 of \d+ checks failed\n"),
                               *((name, r"0 checks failed\n") for name in others)):
            program = self.folder / name
            self.nvcc("-O1", self.root / f"tests/cuda/{name}.cu", "-o", program)
            for devices in DEVICES:
                said = self.run([program], devices, expect=None).stdout
                self.check(f"{name}.cu on {devices} devices", re.fullmatch(expected, said), said)

    # NVTX's ranges are in the trace.
    def marks(self):
        trace = self.folder / "marks.trace"
        self.run([self.wherry, "record", "-o", trace, "--", "./language"], expect=None)
        said = self.run([self.wherry, "trace", trace]).stdout
        self.check("marks in the trace",
                   re.search(r"^marks of the program .*\n(.*\n)*tests +1 ", said, re.M), said)

    def failures(self):
        program = self.folder / "failures"
        self.nvcc("-O1", self.root / "tests/cuda/failures.cu", "-o", program)
        for how, (error, message) in FAILURES.items():
            done = self.run([program, how])
            self.check(f"failure {how}", done.stdout == error + "\n" and message in done.stderr,
                       done.stdout + done.stderr)
        done = self.run([program, "assert"], "coherent", expect=-6)
        self.check("failed assertion on a coherent device", FAILURES["assert"][1] in done.stderr,
                   done.stderr)
        done = self.run([program, "host-assert"], expect=-6)
        self.check("failed assertion of the host", "argc == 7" in done.stderr, done.stderr)


if __name__ == "__main__":
    run_all(Kernels, *some_of((Kernels.examples, Kernels.language, Kernels.marks,
                               Kernels.failures), "kinds of kernels", below_full=0.5))
