#!/usr/bin/env python3
"""A test fails if it prints a line that only a defect of the library can cause, whatever else it
does. Otherwise it ends as it would without the wrapper.

Usage: watched_test.py ROOT
"""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

import defects

ROOT = pathlib.Path(sys.argv.pop(1))
WATCHED = pathlib.Path(__file__).with_name("watched.py")
LIMIT_S = 60


def watched(script, **options):
    """Runs a script of the shell as a test. Does not print what it prints."""
    return subprocess.run([sys.executable, "-B", WATCHED, "sh", "-c", script], text=True,
                          stdin=subprocess.DEVNULL, timeout=LIMIT_S,
                          **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options)


class Watched(unittest.TestCase):
    def test_a_test_without_such_a_line_ends_as_it_would(self):
        for code in (0, 1, 77):
            done = watched(f"echo out; echo err >&2; exit {code}")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (code, "out\n", "err\n"))

    def test_a_signal_that_ends_the_test_is_reported_as_meson_reads_it(self):
        self.assertEqual(watched("kill -ABRT $$").returncode, 128 + signal.SIGABRT)

    def test_a_signal_to_end_is_answered_by_the_test(self):
        process = subprocess.Popen(
            [sys.executable, "-B", WATCHED, "sh", "-c",
             "trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done"],
            stdout=subprocess.PIPE, start_new_session=True)
        with process:
            self.assertEqual(process.stdout.readline(), b"ready\n")
            os.killpg(process.pid, signal.SIGTERM)
            self.assertEqual(process.wait(LIMIT_S), 5)

    def test_a_program_that_does_not_exist_is_a_failure(self):
        done = subprocess.run([sys.executable, "-B", WATCHED, "/nonexistent"], text=True,
                              capture_output=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 127)
        self.assertIn("/nonexistent", done.stderr)

    def test_such_a_line_fails_the_test_whatever_its_result_is(self):
        for line in defects.LINES:
            for code in (0, 77):
                for stream in (1, 2):
                    with self.subTest(line=line, code=code, stream=stream):
                        done = watched(f"echo 'wherry: 0x1000: {line}' >&{stream}; exit {code}")
                        self.assertEqual(done.returncode, 1)
                        self.assertIn("FAILED: only a defect", done.stderr)
                        self.assertIn(line, done.stderr)

    def test_such_a_line_is_found_in_two_pieces_and_in_much_output(self):
        line = defects.LINES[0]
        done = watched("head -c 300000 /dev/zero | tr '\\0' x; "
                       f"printf '{line[:9]}'; sleep 0.1; printf '{line[9:]}'")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stdout), 300000 + len(line))

    def test_the_order_of_two_streams_to_one_file_stays(self):
        done = watched("for i in 1 2 3; do echo out $i; echo err $i >&2; done",
                       stderr=subprocess.STDOUT)
        self.assertEqual(done.stdout, "".join(f"out {i}\nerr {i}\n" for i in (1, 2, 3)))

    def test_signals_that_python_ignores_are_not_ignored_in_the_test(self):
        done = watched("grep SigIgn /proc/self/status")
        self.assertEqual(int(done.stdout.split()[1], 16) & (1 << signal.SIGPIPE - 1), 0)


class Noticed(unittest.TestCase):
    def test_a_test_that_reads_the_output_of_a_program_passes_such_a_line_on(self):
        program = (f"import subprocess, sys; sys.path.insert(0, {str(WATCHED.parent)!r}); "
                   "import defects; defects.noticed(subprocess.run(['sh', '-c', "
                   f"'echo {defects.LINES[0]} >&2'], capture_output=True, text=True))")
        done = subprocess.run([sys.executable, "-B", WATCHED, sys.executable, "-B", "-c", program],
                              capture_output=True, text=True, timeout=LIMIT_S)
        self.assertEqual(done.returncode, 1)

    def test_the_library_has_these_lines_and_tests_in_c_look_for_them(self):
        library = "".join(path.read_text() for path in (ROOT / "lib").rglob("*.cc"))
        support = (ROOT / "tests/support/child.cc").read_text()
        for line in defects.LINES:
            self.assertIn(f'"{line}"', library)
            self.assertIn(f'"{line}"', support)


if __name__ == "__main__":
    unittest.main()
