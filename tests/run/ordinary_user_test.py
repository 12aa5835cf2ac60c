#!/usr/bin/env python3
"""`wherry run` of an ordinary user, whose system calls Linux does not serve where managed memory is
elsewhere: programs print what they print without it, and none of their calls ends in EFAULT.

Usage: ordinary_user_test.py PROGRAM FOLDER CONFINE
  FOLDER     has the test programs
  CONFINE    makes root's commands those of an ordinary user (tests/confine)
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from defects import noticed  # noqa: E402
from length import IS_SHORT, some_tests  # noqa: E402

TIMEOUT_S = 120
LINES = 100_000 if IS_SHORT else 500_000
PROGRAM = ""
FOLDER = CONFINE = pathlib.Path()
HERE = pathlib.Path(__file__).resolve().parent

# Threads of two small devices take pages from each other and from the host.
MOVING = ("--devices", "capacity=8M;capacity=16M", "--attach", "index=0:0", "--attach",
          "index=1-1000:1", "--policy", "migrate-always")


def environment(trap):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("WHERRY_", "CUDA_", "OMPI_", "UCX_", "PMI"))}
    return clean | {"OMPI_MCA_rmaps_base_oversubscribe": "1"} | (
        {"WHERRY_TRAP": trap} if trap else {})


def as_user(command):
    """The command of an ordinary user."""
    if os.geteuid() != 0:
        return [*map(str, command)]
    return [str(CONFINE), "--reach", str(FOLDER.parent), "--reach", str(HERE.parent.parent),
            "--user", *map(str, command)]


def run(command, folder, trap=""):
    return noticed(subprocess.run(
        as_user(command), env=environment(trap) | {"HOME": folder, "TMPDIR": folder}, cwd=folder,
        capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL))


def traps():
    """Both that an ordinary user has; with userfaultfd only where Linux does not let every user
    handle faults inside system calls."""
    if "WHERRY_TRAP" in os.environ:
        return [os.environ["WHERRY_TRAP"]]
    told = run([PROGRAM, "info"], "/tmp").stdout
    found = re.search(r"userfaultfd in system calls\W+(\w+)", told)
    assert found, told
    return ["mprotect"] if found[1] == "yes" else ["", "mprotect"]


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        os.chmod(self.folder, 0o777)

    def needs(self, *programs):
        for program in programs:
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed (tools/packages.txt)")

    def file(self, name, text):
        path = pathlib.Path(self.folder) / name
        path.write_text(text)
        return path

    def text(self):
        return self.file("text", "".join(f"{i * 2654435761 % 1000003} line {i}\n"
                                         for i in range(LINES)))

    def compiled(self, compiler, source, *flags):
        self.needs(compiler)
        result = pathlib.Path(self.folder) / f"{pathlib.Path(source).stem}.{compiler}"
        if not result.exists():
            subprocess.run([compiler, source, "-O2", *flags, "-o", result], check=True, timeout=60)
        return result

    def assert_good(self, report):
        """All of the program's memory was managed, and no call of it failed."""
        self.assertGreater(report["processes"], 0)
        self.assertGreater(report["objects"] + report["mappings"], 0)
        self.assertEqual(report["helped"], report["processes"], "Linux serves faults in its calls")
        self.assertEqual((report["refused_calls"], report["not_started"]), (0, 0))

    def report(self):
        path = pathlib.Path(self.folder) / "report"
        report = json.loads(path.read_text())
        path.unlink()
        return report

    def assert_same(self, command, options=()):
        expected = run(command, self.folder)
        self.assertEqual(expected.returncode, 0, expected.stderr)
        self.assertNotEqual(expected.stdout, "")
        for trap in traps():
            with self.subTest(trap=trap):
                done = run([PROGRAM, "run", *options, "--report", "report", "--", *command],
                           self.folder, trap)
                self.assertEqual(done.stdout, expected.stdout, done.stderr)
                self.assertEqual(done.returncode, 0, done.stderr)
                report = self.report()
                self.assert_good(report)
                self.assertIn("0 system calls ended in EFAULT on managed memory", done.stderr)
                if options:
                    moved = sum(each["migrated_in"] for each in report["processors"])
                    self.assertGreater(moved, 0)


@some_tests(0.5)
class Programs(Case):
    def test_sort(self):
        self.needs("sort")
        text = self.text()
        self.assert_same(["sort", "--parallel=2", "-S", "20M", text])
        self.assert_same(["sort", "--parallel=2", "-S", "20M", text], MOVING)

    def test_xz(self):
        self.needs("xz")
        self.assert_same(["sh", "-c", f"xz -3 -T2 -c {self.text()} | tee text.xz | cksum; "
                                      "xz -d < text.xz | cksum"])

    def test_a_compiler(self):
        self.needs("g++")
        source = self.file("program.cc", "#include <map>\n#include <regex>\n#include <string>\n"
                                         "std::map<std::string, std::regex> all;\n")
        self.assert_same(["sh", "-c", f"g++ -O1 -S -o - {source} | cksum; "
                                      f"g++ -O1 -c {source} -o out.o && cksum < out.o"])

    def test_a_database(self):
        self.needs("sqlite3")
        sql = ("pragma mmap_size=0; pragma cache_size=-8000; pragma page_size=65536; "
               "create table t(a integer, b text); "
               f"with recursive c(x) as (select 1 union all select x + 1 from c where x < {LINES}) "
               "insert into t select x, hex(x * 2654435761 % 1000003) || printf('%040d', x) from c;"
               "create index i on t(b); pragma integrity_check; select count(*), sum(a) from t; "
               "select b from t order by b desc limit 5; delete from t where a % 3 = 0; vacuum; "
               "select count(distinct b), sum(length(b)) from t;")
        self.assert_same(["sh", "-c", f'rm -f base; sqlite3 base "{sql}"; cksum < base'])

    def test_python_and_numpy(self):
        if run(["python3", "-c", "import numpy"], self.folder).returncode != 0:
            self.skipTest("numpy is not installed (tools/packages.txt)")
        code = """
import hashlib, numpy, os, subprocess, sys
a = numpy.random.RandomState(3).rand(700, 700)
a.tofile('numbers')
b = numpy.fromfile('numbers').reshape(700, 700)
print((a == b).all(), (b @ b).sum(), abs(numpy.fft.fft2(a)).sum())
numpy.save('array.npy', a)
print((numpy.load('array.npy') == a).all(), numpy.load('array.npy', mmap_mode='r')[3, 4] == a[3, 4])
file = os.open('numbers', os.O_RDONLY)
print(hashlib.sha1(os.read(file, 3 << 20)).hexdigest())
memory = bytearray(3 << 20)
print(os.preadv(file, [memory], 4096), hashlib.sha1(memory).hexdigest())
print(subprocess.run(['cksum'], input=bytes(memory), capture_output=True).stdout)
print(len(os.urandom(2 << 20)))
sys.stdout.write('x' * (3 << 20) + '\\n')
"""
        self.assert_same(["/usr/bin/python3", "-c", code])
        self.assert_same(["/usr/bin/python3", "-c", code], MOVING)

    def test_openmp(self):
        source = self.file("sums.c", """
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  enum { rows = 2000, columns = 2000 };
  double* const matrix = malloc(sizeof(double) * rows * columns);
  double* const sums = malloc(sizeof(double) * (1 << 18));
#pragma omp parallel for schedule(dynamic, 7)
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) matrix[i * columns + j] = (i * 31 + j * 17) % 1000;
  for (int round = 0; round < 5; ++round)
#pragma omp parallel for schedule(static, 3)
    for (int i = 0; i < rows; ++i) {
      sums[i] = 0;
      for (int j = 0; j < columns; ++j) sums[i] += matrix[i * columns + j];
    }
  double all = 0;
  for (int i = 0; i < rows; ++i) all += sums[i] * i;
  printf("%.1f\\n", all);
  fwrite(sums, sizeof *sums, rows, stdout);
}
""".replace("fwrite(sums, sizeof *sums, rows, stdout);",
            'for (int i = 0; i < rows; i += 100) printf("%.1f\\n", sums[i]);'))
        program = self.compiled("gcc", source, "-fopenmp")
        self.assert_same(["env", "OMP_NUM_THREADS=4", program])
        self.assert_same(["env", "OMP_NUM_THREADS=4", program], MOVING)

    def assert_mpi(self, kind, *environment):
        program = self.compiled(f"mpicc.{kind}", HERE / "mpi_sums.c")
        self.needs(f"mpirun.{kind}")
        self.assert_same(["env", *environment, f"mpirun.{kind}", "-n", 2, program])

    def test_open_mpi(self):
        self.assert_mpi("openmpi")

    def test_mpich(self):
        # By TCP it hangs in MPI_Finalize now and then, also without Wherry (docs/mpi.md).
        self.assert_mpi("mpich", "UCX_TLS=^tcp")


class Redis(Case):
    """A server that has jemalloc: all of its memory is in managed mappings."""

    def answers(self, prefix, trap=""):
        """What the server answers to a script of a client, and its exit code."""
        socket = f"{self.folder}/socket"
        server = subprocess.Popen(
            as_user([*prefix, "redis-server", "--port", 0, "--unixsocket", socket, "--dir",
                     self.folder, "--save", "", "--appendonly", "yes", "--io-threads", 2,
                     "--logfile", f"{self.folder}/log"]),
            env=environment(trap) | {"HOME": self.folder, "TMPDIR": self.folder}, cwd=self.folder,
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while not os.path.exists(socket):
                self.assertIsNone(server.poll(), "the server has ended")
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.05)
            answers = []

            def ask(*words, data=None):
                done = subprocess.run(["redis-cli", "-s", socket, *words], capture_output=True,
                                      input=data, text=True, timeout=TIMEOUT_S)
                answers.append((words, done.returncode, done.stdout))
                return done.stdout

            def await_end_of(what):
                while f"{what}:0" not in ask("info", "persistence"):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.05)
                    answers.pop()
                answers.pop()

            for i in range(4):
                ask("-x", "set", f"large{i}", data=f"{i} " * 300_000)
            ask("eval", "for i = 1, 20000 do redis.call('hset', 'h' .. (i % 100), i, "
                        "string.rep('x', i % 200)) end return redis.call('dbsize')", "0")
            for i in range(4):
                ask("get", f"large{i}")
            ask("save")
            ask("bgsave")
            await_end_of("rdb_bgsave_in_progress")
            ask("bgrewriteaof")
            await_end_of("aof_rewrite_in_progress")
            ask("hget", "h7", "107")
            ask("strlen", "large2")
            ask("dbsize")
            ask("shutdown", "nosave")
            _, errors = server.communicate(timeout=TIMEOUT_S)
        finally:
            if server.poll() is None:
                server.kill()
                server.wait()
        # The files that it wrote are read by a server without Wherry.
        checked = subprocess.run(["redis-check-rdb", f"{self.folder}/dump.rdb"],
                                 capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(checked.returncode, 0, checked.stdout)
        for name in os.listdir(self.folder):
            if name != "report":
                path = pathlib.Path(self.folder) / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        return answers + [("exit", server.returncode, "")], errors

    def test_redis(self):
        self.needs("redis-server", "redis-cli", "redis-check-rdb")
        expected, _ = self.answers([])
        self.assertEqual(expected[-1][1], 0)
        for trap in traps():
            for options in ((), MOVING):
                with self.subTest(trap=trap, options=options):
                    answers, errors = self.answers(
                        [PROGRAM, "run", *options, "--report", "report", "--"], trap)
                    self.assertEqual(answers, expected, errors)
                    self.assert_good(self.report())


class Calls(Case):
    def test_calls_find_pages_that_do_not_exist(self):
        self.assert_same([FOLDER / "run_absent_pages"])

    def test_linux_says_that_no_call_ends_in_efault(self):
        """strace sees calls that no function of the C library makes, too."""
        self.needs("strace")
        for trap in traps():
            with self.subTest(trap=trap):
                done = run(["strace", "-f", "-o", "calls", PROGRAM, "run", "--quiet", "--",
                            FOLDER / "run_absent_pages"], self.folder, trap)
                self.assertEqual(done.returncode, 0, done.stderr)
                calls = (pathlib.Path(self.folder) / "calls").read_text()
                self.assertIn("FUTEX_WAIT_PRIVATE", calls)
                self.assertEqual([line for line in calls.splitlines() if "-1 EFAULT" in line], [])

    def test_a_program_with_an_allocator_of_its_own_is_left_alone_with_a_line(self):
        command = [FOLDER / "run_own_allocator"]
        expected = run(command, self.folder)
        for trap in traps():
            with self.subTest(trap=trap):
                done = run([PROGRAM, "run", "--quiet", "--", *command], self.folder, trap)
                self.assertEqual((done.stdout, done.returncode), (expected.stdout, 0), done.stderr)
                self.assertIn("it has an allocator of its own", done.stderr)
                lines = [line for line in done.stderr.splitlines()
                         if not line.startswith("confined: ")]
                self.assertEqual(len(lines), 1, done.stderr)


if __name__ == "__main__":
    PROGRAM, FOLDER, CONFINE = (pathlib.Path(name).resolve() for name in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
