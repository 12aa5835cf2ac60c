#!/usr/bin/env python3
"""docs/examples/mpi_stencil.cc with Open MPI and MPICH: halo rows of 1 MiB in managed memory are
passed to MPI directly, and the result is that of one process, in every configuration that
docs/mpi.md calls supported; in the others the program ends with an error.

Usage: stencil_test.py SOURCE_ROOT BUILD_ROOT TOOL
An MPI whose compiler (mpicxx.openmpi, mpicxx.mpich) is missing is skipped, with exit code 77.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from defects import noticed  # noqa: E402
from length import IS_SHORT, some_tests  # noqa: E402

TIMEOUT_S = 60
# Ranks wait by polling, so more of them than CPUs take long.
RANKS = (2,) if IS_SHORT else (2, 4)
AS_COMPUTED = "as computed by one process"
NO_SINGLE_COPY = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none", "UCX_TLS": "posix,self",
                  "WHERRY_HUGE_PAGES": "auto"}
# MPI copies into the other process instead of out of it.
COPIES_INTO = {"OMPI_MCA_btl_vader_flags": "send,put", "UCX_RNDV_SCHEME": "put_zcopy"}
# Open MPI 5 reaches no rank by TCP on a machine without a network, unless this names an interface.
BY_TCP = {"OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo"}


def environment(**more):
    """A small device a rank, Open MPI as root, no TCP for MPICH, which hangs with it now and then,
    also without Wherry (docs/mpi.md), and no settings of the caller."""
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("WHERRY_", "CUDA_", "OMPI_", "UCX_", "PMI"))}
    clean |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
              "WHERRY_DEVICES": "capacity=256M,workers=1", "UCX_TLS": "^tcp"}
    # The setup "mprotect" forbids userfaultfd.
    if "WHERRY_TRAP" in os.environ:
        clean["WHERRY_TRAP"] = os.environ["WHERRY_TRAP"]
    return clean | more


@some_tests(0.5)
class Stencil:
    """The tests, for the MPI that a subclass names."""

    mpi = None
    options = []

    @classmethod
    def setUpClass(cls):
        if shutil.which(f"mpicxx.{cls.mpi}") is None:
            raise unittest.SkipTest(f"no mpicxx.{cls.mpi} (tools/setup test)")
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = f"{cls.folder.name}/mpi_stencil"
        libraries = BUILD / "lib"
        subprocess.run(
            [f"mpicxx.{cls.mpi}", "-std=c++20", "-O2", "-w", f"-I{SOURCE}/lib/include",
             f"{SOURCE}/docs/examples/mpi_stencil.cc", "-o", cls.program, f"-L{libraries}",
             "-lwherry", f"-Wl,-rpath,{libraries}",
             f"-Wl,-rpath-link,{libraries}/interposers"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_it(self, *arguments, ranks=2, limit_s=TIMEOUT_S, **more):
        command = [f"mpirun.{self.mpi}", *self.options, "-n", str(ranks), self.program, *arguments]
        # SIGTERM, on which a launcher ends its ranks, too.
        return noticed(subprocess.run(["timeout", "--kill-after=10", str(limit_s), *command],
                                      env=environment(**more), capture_output=True, text=True,
                                      stdin=subprocess.DEVNULL))

    def assert_right(self, *arguments, ranks=2, **more):
        done = self.run_it(*arguments, ranks=ranks, **more)
        self.assertNotEqual(done.returncode, 124, "no end: " + done.stdout + done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{ranks} ranks, checksum ", done.stdout)
        self.assertIn(AS_COMPUTED, done.stdout)
        return done

    def traps(self):
        """The one that runs by itself, and at full length the others that can run here."""
        if IS_SHORT:
            return [{}]
        possible = ("mprotect",) if RUNS == "mprotect" else ("mprotect", "sigbus")
        return [{}] + [{"WHERRY_TRAP": trap} for trap in possible if trap != RUNS]

    def test_without_single_copies_it_is_right_with_every_trap(self):
        for trap in self.traps():
            for ranks in RANKS:
                with self.subTest(trap=trap, ranks=ranks):
                    self.assert_right(ranks=ranks, **NO_SINGLE_COPY, **trap)

    def test_with_pinned_rows_it_is_right_with_every_trap(self):
        for trap in self.traps():
            # With sigbus, MPICH may abort if there are huge pages (docs/mpi.md, limits).
            huge = {} if "sigbus" in trap.values() or RUNS == "sigbus" else {
                "WHERRY_HUGE_PAGES": "auto"}
            for direction in ({}, COPIES_INTO):
                with self.subTest(trap=trap, direction=direction):
                    self.assert_right("16", "131072", "20", "pin", **huge, **direction, **trap)

    def test_every_rank_writes_a_trace_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.assert_right(WHERRY_TRACE=f"{folder}/trace-%r", **NO_SINGLE_COPY)
            self.assertEqual(sorted(os.listdir(folder)), ["trace-0", "trace-1"])
            self.assertNotIn("no trace", done.stderr)
            processes = {json.loads(subprocess.run(
                [TOOL, "trace", f"{folder}/{name}", "--format", "json"], check=True,
                capture_output=True, text=True).stdout)["machine"]["process"]
                         for name in os.listdir(folder)}
            self.assertEqual(len(processes), 2)

    def test_ranks_do_not_replace_each_others_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.assert_right(WHERRY_TRACE=f"{folder}/trace", **NO_SINGLE_COPY)
            self.assertEqual(os.listdir(folder), ["trace"])
            line = f"wherry: no trace {folder}/trace is written: another process is writing it"
            self.assertEqual(done.stderr.count(line), 1, done.stderr)


class OpenMpi(Stencil, unittest.TestCase):
    mpi = "openmpi"
    options = ["--oversubscribe"]

    def test_as_installed_it_is_right_with_every_trap(self):
        for trap in self.traps():
            for ranks in RANKS:
                with self.subTest(trap=trap, ranks=ranks):
                    self.assert_right("16", "131072", "30", ranks=ranks, **trap)

    def test_sockets_find_managed_memory_with_libwherry_io(self):
        io = next((BUILD / "lib/io").glob("libwherry_io.so.?"))
        for trap in self.traps():
            with self.subTest(trap=trap):
                self.assert_right(LD_PRELOAD=str(io), **BY_TCP, **trap)


class Mpich(Stencil, unittest.TestCase):
    mpi = "mpich"

    def test_as_installed_it_is_right_if_faults_in_system_calls_are_served_else_it_ends(self):
        if RUNS == "userfaultfd":
            for ranks in RANKS:
                with self.subTest(ranks=ranks):
                    self.assert_right("16", "131072", "30", ranks=ranks)
        with self.subTest(trap="mprotect"):
            done = self.run_it(limit_s=TIMEOUT_S if self.version() < 5 else 10,
                               WHERRY_TRAP="mprotect")
            self.assertNotIn("checksum", done.stdout)
            self.assertNotEqual(done.returncode, 0)
            # MPICH 5 crashes, or waits for ever (docs/mpi.md, limits).
            if self.version() < 5:
                self.assertNotEqual(done.returncode, 124, "no end")
                self.assertIn("Bad address", done.stdout + done.stderr)

    def version(self):
        text = subprocess.run(["mpirun.mpich", "--version"], check=True, capture_output=True,
                              text=True).stdout
        return int(re.search(r"Version: +([0-9]+)", text)[1])


def main():
    program = unittest.main(argv=sys.argv[:1] + sys.argv[4:], exit=False, verbosity=2)
    if not program.result.wasSuccessful():
        sys.exit(1)
    for _, reason in program.result.skipped:
        print(f"SKIP: {reason}")
    sys.exit(77 if program.result.skipped else 0)


if __name__ == "__main__":
    SOURCE, BUILD, TOOL = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
    RUNS = json.loads(subprocess.run([TOOL, "info", "--json"], check=True, env=environment(),
                                     capture_output=True, text=True).stdout)["trap"]["runs"]
    main()
