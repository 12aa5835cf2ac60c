"""One try of Wherry on another machine: what was asked for, and what passed."""

import pathlib
import shutil
import subprocess

CHECKOUT = pathlib.Path(__file__).resolve().parent.parent.parent


class Unavailable(Exception):
    """A machine cannot be tried here; the text says why and what to do."""


class Attempt:
    """name: the machine's. cache: a folder for what later calls use again. quick: whether to run
    the short form. build: the build folder whose programs are to be run, or None for those of a
    clean clone."""

    def __init__(self, name, cache, quick, build):
        self.name, self.cache, self.quick, self.build = name, cache, quick, build
        self.passed = self.failed = self.skipped = 0

    def succeed(self, what, count=1):
        self.passed += count
        print(f"{self.name}: ok: {what}", flush=True)

    def fail(self, what, why, count=1):
        self.failed += count
        print(f"{self.name}: FAILED: {what}: {why}", flush=True)

    def skip(self, what, why, count=1):
        self.skipped += count
        print(f"{self.name}: skipped: {what}: {why}", flush=True)

    def clone(self, folder):
        """A fresh clone of HEAD in the folder, which is made anew. Changes that are not committed
        are not in it."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        # The checkout may belong to another user.
        subprocess.run(["git", "-c", f"safe.directory={CHECKOUT}", "clone", "--quiet",
                        "--no-hardlinks", CHECKOUT, folder], check=True)
        return folder
