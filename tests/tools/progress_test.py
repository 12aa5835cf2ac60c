#!/usr/bin/env python3
"""Commands that take long show on a terminal how far they are, and erase that at the end.

Usage: progress_test.py PROGRAM
"""

import os
import pathlib
import pty
import re
import subprocess
import tempfile
import termios

import cli_test
from cli_test import Case, wherry

ERASE = "\r\033[K"
DEVICE = {"WHERRY_DEVICES": "capacity=4M,workers=1"}


def with_terminal(*arguments, columns=80, kind="xterm", environment=DEVICE):
    """Runs the tool with a terminal as its stderr. Returns what it writes to stdout and there."""
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, columns))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("WHERRY_")}
    clean |= {"XDG_CACHE_HOME": cli_test.CACHE.name, "TERM": kind} | environment
    with subprocess.Popen([cli_test.PROGRAM, *map(str, arguments)], env=clean, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=its) as tool:
        os.close(its)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # what Linux answers when the other end is closed
            pass
        out = tool.stdout.read()
    os.close(ours)
    return tool.returncode, out, shown.decode()


class Progress(Case):
    def test_a_terminal_shows_each_step_in_one_line_and_then_nothing(self):
        code, out, shown = with_terminal("bench", "oversubscribe", "--rounds", 1)
        self.assertEqual(code, 0, shown)
        self.assertNotIn("\n", shown)
        self.assertTrue(shown.startswith(ERASE) and shown.endswith(ERASE), shown)
        lines = shown.split(ERASE)
        self.assertRegex(lines[2], r"^1 of 9: sweep of 1\.25x the capacity \(\d+ s\)$")
        self.assertRegex(lines[-2], r"^9 of 9: zipf of 4x the capacity \(\d+ s\)$")
        self.assertIn("hit rate", out)
        self.assertNotIn("\033", out)

    def test_nothing_is_shown_in_a_pipe(self):
        done = wherry("cg", "--poisson", 16, environment=DEVICE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_nothing_is_shown_on_a_terminal_that_cannot_erase(self):
        code, _, shown = with_terminal("cg", "--poisson", 16, kind="dumb")
        self.assertEqual((code, shown), (0, ""))

    def test_a_line_is_not_longer_than_the_terminal_is_wide(self):
        _, _, shown = with_terminal("bench", "oversubscribe", "--rounds", 1, columns=20)
        lines = shown.split(ERASE)
        self.assertEqual(max(map(len, lines)), 19)

    def test_an_error_stands_alone_in_its_line(self):
        code, _, shown = with_terminal("bench", "policies", "--workloads", "read-shared",
                                       "--policies", "uvm", "--rounds", 1)
        self.assertEqual(code, 1, shown)
        self.assertRegex(shown.split(ERASE)[-1],
                         r"^wherry: read-shared under .*: it needs 2 devices\r\n$")

    def test_each_long_command_shows_its_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "wherry.trace"
            recorded = wherry("record", "-o", trace, "--", cli_test.PROGRAM, "cg", "--poisson", 32,
                              environment=DEVICE)
            self.assertEqual(recorded.returncode, 0, recorded.stderr)
            accesses = pathlib.Path(folder) / "accesses.csv"
            accesses.write_text("time_ns,address\n1,0x1000\n")
            for arguments, words in (
                    (["calibrate"], r"4 of 4: what an eviction costs"),
                    (["replay", trace], r"1 of \d+: "),
                    (["import", accesses, "-o", trace], "writing the trace"),
                    (["cg", "--poisson", 16], "solving in managed memory"),
                    (["bench", "numa", "--bytes", "2M", "--method", "prefetch", "--from", 0,
                      "--to", 0], "1 of 1: prefetch from node 0 to node 0"),
                    (["bench", "policies", "--workloads", "ping-pong", "--policies", "uvm",
                      "--rounds", 1], "1 of 1: ping-pong under uvm: round 1 of 1")):
                code, _, shown = with_terminal(*arguments, environment={})
                self.assertEqual(code, 0, shown)
                self.assertTrue(re.search(words, shown), (words, shown))
                self.assertTrue(shown.endswith(ERASE), shown)


if __name__ == "__main__":
    cli_test.main()
