#!/usr/bin/env python3
"""The rights that `confine` removes from a program, and those that it leaves. The program that it
runs checks them.

Usage: confine_test.py CONFINE
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

CONFINE = os.path.abspath(sys.argv.pop())

# Prints the error of each way to get a userfaultfd, 0 for success. Standard input is
# /dev/userfaultfd, opened before.
ASK = """
import ctypes, fcntl
libc = ctypes.CDLL(None, use_errno=True)
def ask(function, *arguments):
    return 0 if function(*arguments) >= 0 else ctypes.get_errno()
print(ask(libc.syscall, 323, 0), ask(libc.syscall, 323, 1), ask(libc.ioctl, 0, 0xAA00, 0))
"""
EPERM = "1"


def confine(*arguments, stdin=subprocess.DEVNULL):
    return subprocess.run([CONFINE, *arguments], stdin=stdin, capture_output=True, text=True,
                          timeout=60)


def python(*options, code):
    return (*options, sys.executable, "-c", code)


class Confine(unittest.TestCase):
    def test_without_options_the_program_is_as_it_was(self):
        run = confine("sh", "-c", "id -u; exit 7")
        self.assertEqual((run.returncode, run.stdout), (7, f"{os.geteuid()}\n"))

    def test_misuse_is_said(self):
        for words in ([], ["--user"], ["--refuse-userfaultfd", "maybe", "true"],
                      ["--jail", "true"]):
            run = confine(*words)
            self.assertEqual(run.returncode, 2, words)
            self.assertIn("usage", run.stderr)

    def test_the_user_has_no_privilege(self):
        status = dict(line.split(":", 1)
                      for line in confine("--user", "cat", "/proc/self/status").stdout.splitlines())
        self.assertNotIn("0", status["Uid"].split())
        self.assertNotIn("0", status["Gid"].split())
        for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
            self.assertEqual(int(status[kind], 16), 0, kind)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")

    def test_the_user_still_sees_its_own_page_tables_and_writes_temporary_files(self):
        code = ("import tempfile; tempfile.TemporaryFile(); "
                "print(len(open('/proc/self/pagemap', 'rb').read(8)))")
        self.assertEqual(confine(*python("--user", code=code)).stdout, "8\n")

    def test_the_user_has_userfaultfd_for_user_mode_only(self):
        device = "/dev/userfaultfd"
        with open(device if os.access(device, os.R_OK) else "/dev/null") as stdin:
            before = confine(*python(code=ASK), stdin=stdin).stdout.split()
            after = confine(*python("--user", code=ASK), stdin=stdin).stdout.split()
        self.assertEqual(after, [EPERM, before[1], EPERM])

    def test_userfaultfd_is_refused(self):
        run = confine(*python("--refuse-userfaultfd", "eperm", code=ASK))
        self.assertEqual(run.stdout.split()[:2], [EPERM, EPERM])

    def test_userfaultfd_kills(self):
        self.assertEqual(confine(*python("--refuse-userfaultfd", "kill", code=ASK)).returncode,
                         -signal.SIGSYS)

    def test_io_uring_is_refused(self):
        code = ("import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
                "print([libc.syscall(number, -1, 0) and ctypes.get_errno() "
                "for number in (425, 426, 427)])")
        self.assertEqual(confine(*python("--refuse-io-uring", code=code)).stdout, "[1, 1, 1]\n")


def mounts():
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True,
                          timeout=60).returncode == 0


@unittest.skipUnless(os.geteuid() == 0 and mounts(), "needs a mount namespace")
class Reach(unittest.TestCase):
    def test_a_folder_behind_a_closed_one_is_reached_at_its_place_and_nothing_else_there(self):
        with tempfile.TemporaryDirectory() as closed:  # of mode 700
            clone = pathlib.Path(closed) / "some where" / "clone"
            clone.mkdir(parents=True)
            (clone / "file").write_text("content")
            (clone.parent / "secret").write_text("secret")
            run = confine("--reach", str(clone), "--user", "cat", str(clone / "file"))
            self.assertEqual((run.returncode, run.stdout), (0, "content"))
            self.assertNotEqual(confine("--user", "cat", str(clone.parent / "secret")).returncode,
                                0)
            run = confine("--reach", str(clone), "--user", "ls", closed, str(clone.parent))
            self.assertNotIn("secret", run.stdout)
            self.assertEqual(os.listdir(clone.parent / "clone"),
                             ["file"])  # other processes see the folder unchanged

    def test_folders_within_each_other_and_beside_each_other_are_reached(self):
        with tempfile.TemporaryDirectory() as closed:
            places = [pathlib.Path(closed) / name for name in ("source", "source/build", "other")]
            for place in places:
                place.mkdir()
                (place / "file").write_text(place.name)
            reach = [word for place in places for word in ("--reach", str(place))]
            run = confine(*reach, "--user", "cat", *(str(place / "file") for place in places))
            self.assertEqual((run.returncode, run.stdout), (0, "sourcebuildother"))

    def test_a_folder_that_is_closed_itself_belongs_to_the_user(self):
        with tempfile.TemporaryDirectory() as closed:
            (pathlib.Path(closed) / "file").touch(mode=0o600)
            run = confine("--reach", closed, "--user", "stat", "-c", "%u", f"{closed}/file")
            if "closed to others" in run.stdout:
                self.skipTest("no idmapped mounts of this file system")
            self.assertEqual((run.returncode, run.stdout),
                             (0, confine("--user", "id", "-u").stdout))
            self.assertEqual(os.stat(f"{closed}/file").st_uid, 0)

    def test_the_working_folder_stays(self):
        with tempfile.TemporaryDirectory() as closed:
            here = pathlib.Path(closed) / "here"
            here.mkdir()
            (here / "file").touch()
            run = subprocess.run([CONFINE, "--reach", str(here), "--user", "sh", "-c", "pwd; ls"],
                                 cwd=here, capture_output=True, text=True, timeout=60)
            self.assertEqual((run.returncode, run.stdout), (0, f"{here}\nfile\n"))

    def test_what_stays_closed_is_named(self):
        with tempfile.TemporaryDirectory() as closed:
            run = confine("--user", "cat", f"{closed}")
            self.assertEqual(run.returncode, 77)
            self.assertRegex(run.stdout, f"^SKIP: .*{closed}")


unittest.main(verbosity=2)
