"""`wherry nvcc` and programs in a temporary folder, for the tests of this folder."""

import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from defects import noticed  # noqa: E402
from length import is_turn_of, some_of  # noqa: E402, F401  (also for those who import this)

DEVICES = {"isolated": "capacity=64M", "coherent": "kind=coherent,capacity=64M"}


class Tests:
    """Each test exits with a message if something is wrong."""

    def __init__(self, root, build, wherry, folder):
        self.root, self.build, self.wherry = root, build, wherry
        self.folder = folder

    def run(self, command, devices="isolated", expect=0, **options):
        environment = dict(os.environ, WHERRY_DEVICES=DEVICES[devices], LC_ALL="C.UTF-8",
                           XDG_CACHE_HOME=str(self.folder / "cache"))
        done = noticed(subprocess.run(command, capture_output=True, text=True, timeout=120,
                                      env=environment, cwd=self.folder, **options))
        if expect is not None and done.returncode != expect:
            sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n"
                     f"{done.stdout}{done.stderr}")
        return done

    def nvcc(self, *words, **options):
        return self.run([self.wherry, "nvcc", *words], **options)

    def check(self, what, condition, said=""):
        if not condition:
            sys.exit(f"{what}: {said}")


def run_all(kind, *tests):
    """Runs these methods of a kind of Tests. The program's arguments: ROOT BUILD WHERRY."""
    root, build, wherry = (pathlib.Path(word).resolve() for word in sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        instance = kind(root, build, wherry, pathlib.Path(folder))
        for test in tests:
            test(instance)
