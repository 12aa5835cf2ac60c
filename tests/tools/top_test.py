#!/usr/bin/env python3
"""`wherry top`: what it says of running programs, on a terminal and to scripts, and of processes
that it cannot show.

Usage: top_test.py PROGRAM CLIENT
"""

import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time

import cli_test
from cli_test import Case, wherry

CLIENT = ""
NOBODY = 65534
LIMIT_S = 60
SETTINGS = {"WHERRY_DEVICES": "capacity=16M,workers=1", "WHERRY_POLICY": "migrate-always"}


class Client:
    """A program that uses Wherry, until the end of a with statement."""

    def __init__(self, program=None, user=None):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("WHERRY_")}
        self.process = subprocess.Popen([program or CLIENT], env=clean | SETTINGS, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user,
                                        group=user, extra_groups=None if user is None else [])
        self.pid = self.process.pid
        ready = self.process.stdout.readline()
        if ready != "ready\n":
            raise RuntimeError(f"the client said {ready!r}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def tell(self, command):
        """Returns the lines before "done"."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        lines = []
        while (line := self.process.stdout.readline()) not in ("done\n", ""):
            lines.append(line)
        return lines

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def status(pid):
    done = wherry("top", pid, "--once", "--json")
    assert (done.returncode, done.stderr) == (0, ""), done
    return json.loads(done.stdout)


def memory_of(report, name):
    found = [one for one in report["memory"] if one["names"] == [name]]
    return found[0] if found else None


class Terminal:
    """The tool's live view, on a terminal of its own."""

    def __init__(self, *arguments, kind="xterm"):
        self.end, its = pty.openpty()
        termios.tcsetwinsize(its, (30, 120))
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith("WHERRY_")}
        self.tool = subprocess.Popen([cli_test.PROGRAM, "top", *map(str, arguments)],
                                     env=clean | {"TERM": kind}, stdin=its, stdout=its, stderr=its,
                                     start_new_session=True)
        os.close(its)
        self.shown = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.tool.poll() is None:
            self.tool.kill()
        self.tool.wait()
        os.close(self.end)

    def read(self):
        """Reads what comes next. Returns False if the tool has closed the terminal."""
        if not select.select([self.end], [], [], 1)[0]:
            return True
        try:
            piece = os.read(self.end, 65536)
        except OSError:  # what Linux answers when the other end is closed
            return False
        self.shown += piece.decode(errors="replace")
        return bool(piece)

    def wait_for(self, text):
        """Returns whether the text is shown; False: the tool has ended before."""
        limit = time.monotonic() + LIMIT_S
        while text not in self.shown and time.monotonic() < limit and self.read():
            pass
        return text in self.shown

    def code(self):
        """The exit code, when the tool ends by itself."""
        limit = time.monotonic() + LIMIT_S
        while time.monotonic() < limit and self.read():
            pass
        return self.tool.wait(LIMIT_S)

    def press(self, keys):
        os.write(self.end, keys)


class Report(Case):
    def test_pools_names_and_settings_are_those_of_the_program(self):
        with Client() as client:
            report = status(client.pid)
        self.assertEqual(report["pid"], client.pid)
        self.assertEqual(report["program"], pathlib.Path(CLIENT).name[:15])
        self.assertEqual(report["state"], "running")
        self.assertEqual(report["policy"], "migrate-always")
        self.assertEqual(report["policy_in_force"], "migrate-always")
        self.assertEqual([pool["name"] for pool in report["pools"]], ["host", "device 0"])
        self.assertEqual([pool["kind"] for pool in report["pools"]], ["host", "isolated"])
        self.assertIsNone(report["pools"][0]["capacity_bytes"])
        self.assertEqual(report["pools"][1]["capacity_bytes"], 16 << 20)
        self.assertEqual(memory_of(report, "values")["bytes"], 4 << 20)
        self.assertEqual(memory_of(report, "passing")["moved_bytes"], 0)

    def test_counters_rise_with_the_programs_work(self):
        with Client() as client:
            client.tell("work")
            before = status(client.pid)
            client.tell("work")
            after = status(client.pid)
        pages = (4 << 20) // 4096
        # The memory goes to the device and back in each round.
        for pool in (0, 1):
            counters = [report["pools"][pool]["counters"] for report in (before, after)]
            self.assertEqual(counters[1]["migrated_in"] - counters[0]["migrated_in"], pages)
            self.assertGreater(counters[1]["faults_missing"], counters[0]["faults_missing"])
        values = [memory_of(report, "values") for report in (before, after)]
        self.assertEqual(values[1]["moved_bytes"] - values[0]["moved_bytes"], 2 * 4096 * pages)
        self.assertGreater(values[1]["faults"], values[0]["faults"])
        self.assertEqual(after["memory"][0]["names"], ["values"])  # the most active first
        self.assertEqual(after["pools"][0]["used_bytes"], 4096 * pages)
        self.assertGreater(after["seconds"], before["seconds"])

    def test_freed_memory_has_no_name(self):
        with Client() as client:
            self.assertIsNotNone(memory_of(status(client.pid), "passing"))
            client.tell("free")
            self.assertIsNone(memory_of(status(client.pid), "passing"))

    def test_text_has_the_same_and_averages(self):
        with Client() as client:
            client.tell("work")
            done = wherry("top", client.pid, "--once")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for words in (f"({client.pid})", "migrate-always", "device 0", "16.0 MiB", "values",
                      "passing", "faults/s"):
            self.assertIn(words, done.stdout)

    def test_a_long_name_is_cut_between_its_characters(self):
        with Client() as client:
            client.tell("name €" + "é" * 120)
            done = wherry("top", client.pid, "--once")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = done.stdout.splitlines()
        row, = [line for line in lines if line.startswith("€")]
        heading, = [line for line in lines if line.startswith("memory")]
        self.assertRegex(row, "^€é{11,} ")
        self.assertEqual(len(row), len(heading))

    def test_a_stopped_program_is_shown_as_it_stopped(self):
        with Client() as client:
            client.tell("work")
            client.process.send_signal(signal.SIGSTOP)
            os.waitpid(client.pid, os.WUNTRACED)
            report = status(client.pid)
        self.assertEqual(report["state"], "stopped")
        self.assertGreater(memory_of(report, "values")["faults"], 0)


class Choice(Case):
    def pids(self):
        done = wherry("top", "--once", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [program["pid"] for program in json.loads(done.stdout)]

    def test_programs_are_listed_while_they_run(self):
        with Client() as first, Client() as second:
            self.assertLessEqual({first.pid, second.pid}, set(self.pids()))
            listed = wherry("top", "--once")
            self.assertEqual((listed.returncode, listed.stderr), (0, ""))
            for pid in (first.pid, second.pid):
                self.assertIn(f" {pid} ", listed.stdout)
        self.assertTrue({first.pid, second.pid}.isdisjoint(self.pids()))

    def test_a_child_of_the_program_does_not_count_as_one(self):
        with Client() as client:
            child = int(client.tell("fork")[0])
            try:
                self.assertNotIn(child, self.pids())
                self.assert_complaint(wherry("top", child, "--once"), 1, "does not use Wherry")
            finally:
                os.kill(child, signal.SIGKILL)

    def test_a_program_without_wherry_is_named(self):
        with subprocess.Popen(["sleep", "60"]) as other:
            done = wherry("top", other.pid, "--once", "--json")
            other.kill()
        self.assert_complaint(done, 1, f"process {other.pid} (sleep) does not use Wherry")

    def test_numbers_of_no_process(self):
        with Client() as client:
            pass
        self.assert_complaint(wherry("top", client.pid, "--once"), 1,
                              f"there is no process {client.pid}")
        for pid in (0, -5, "x", 1 << 40):
            self.assert_complaint(wherry("top", pid, "--once"), 2)

    def test_json_is_for_one_report(self):
        self.assert_complaint(wherry("top", "--json"), 2, "--once")

    def test_a_pipe_cannot_show_the_live_view(self):
        with Client() as client:
            self.assert_complaint(wherry("top", client.pid), 1, "terminal", "--once")


class OtherUsers(Case):
    """Run by root, because that can start programs of other users."""

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("only root can start programs of other users")
        # Where other users can reach them.
        self.folder = tempfile.TemporaryDirectory()
        os.chmod(self.folder.name, 0o755)
        self.tool = shutil.copy(cli_test.PROGRAM, self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def run_as_nobody(self, *arguments):
        return subprocess.run([self.tool, *map(str, arguments)], user=NOBODY, group=NOBODY,
                              extra_groups=[], cwd="/", capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=LIMIT_S)

    def test_another_user_sees_nothing(self):
        with Client() as client:
            self.assert_complaint(self.run_as_nobody("top", client.pid, "--once"), 1,
                                  f"process {client.pid}", "belongs to root", "as root")
            listed = self.run_as_nobody("top", "--once", "--json")
            self.assertNotIn(client.pid, [row["pid"] for row in json.loads(listed.stdout)])

    def test_root_and_the_user_see_the_users_program(self):
        with Client(shutil.copy(CLIENT, self.folder.name), NOBODY) as client:
            self.assertEqual(status(client.pid)["pid"], client.pid)
            done = self.run_as_nobody("top", client.pid, "--once", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIsNotNone(memory_of(json.loads(done.stdout), "values"))


class Live(Case):
    def test_the_view_shows_the_program_until_q_is_pressed(self):
        with Client() as client, Terminal(client.pid, "--interval", 0.1) as view:
            self.assertTrue(view.wait_for("values"), view.shown)
            self.assertIn("device 0", view.shown)
            client.process.send_signal(signal.SIGSTOP)
            self.assertTrue(view.wait_for("STOPPED"), view.shown)
            view.press(b"q")
            self.assertEqual(view.code(), 0)

    def test_the_view_ends_with_the_program(self):
        with Client() as client, Terminal(client.pid, "--interval", 3600) as view:
            self.assertTrue(view.wait_for("values"), view.shown)
            client.end()
            self.assertEqual(view.code(), 0)
            self.assertIn(f"process {client.pid} has ended", view.shown)

    def test_a_terminal_without_a_screen_is_refused(self):
        with Client() as client, Terminal(client.pid, kind="unknown-kind") as view:
            self.assertEqual(view.code(), 1)
            self.assertIn("--once", view.shown)


if __name__ == "__main__":
    CLIENT = sys.argv.pop(2)
    cli_test.main()
