#!/usr/bin/env python3
"""The Debian packages install on a clean Debian system, what they install works there, and removing
them leaves no file: trial.sh.

The system is one of the packages marked as required, with apt, g++ and pkg-config, from the mirror
that apt uses here (about 100 MB).

Usage: chroot_test.py ROOT
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile

import built

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from machines import mirror  # noqa: E402  (the line above finds it)

# What the trial compiles and runs, beside the files of this folder.
SOURCES = ["docs/examples/first.cc", "docs/examples/cuda/vector_add.cu",
           "tests/compat/driver_client.c", "tests/package/arrays.py", "tests/package/trial.sh"]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def codename():
    """The name of this release of Debian; skips the test on other systems."""
    system = dict(line.split("=", 1) for line in
                  pathlib.Path("/etc/os-release").read_text().splitlines() if "=" in line)
    if system.get("ID") != "debian":
        built.skip("not Debian")
    return system["VERSION_CODENAME"]


def mirrors(release):
    """Rows (URI, suite) of the suites of this release from which apt installs packages here."""
    suites = {release, f"{release}-updates", f"{release}-security"}
    rows = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)",
               "Created-By: Packages").stdout.splitlines()
    # A repository without suites has fewer words.
    return [(row[0].rstrip("/"), row[1]) for row in map(str.split, rows)
            if len(row) == 3 and row[1] in suites and row[2] == "main"]


def check_network(rows, release, folder):
    """Skips the test where apt cannot reach the mirror."""
    uris = [uri for uri, suite in rows if suite == release]
    if not uris:
        built.skip(f"apt knows no mirror of {release}")
    fetched = run("/usr/lib/apt/apt-helper", "download-file",
                  f"{uris[0]}/dists/{release}/InRelease", folder / "release")
    if fetched.returncode != 0:
        print(fetched.stdout + fetched.stderr)
        built.skip(f"cannot reach {uris[0]}")


def main():
    root = pathlib.Path(sys.argv[1])
    built.need("mmdebstrap")
    packages, release = built.packages(root), codename()
    rows = mirrors(release)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_network(rows, release, folder)
        trial = folder / "trial"
        trial.mkdir()
        for package in packages.glob("*.deb"):
            if "-dbgsym" not in package.name:
                shutil.copy(package, trial)
        for source in SOURCES:
            shutil.copy(root / source, trial)
        done = run("mmdebstrap", "--variant=apt", "--format=null", "--include=g++,pkg-config",
                   *mirror.settings(), f"--customize-hook=copy-in {trial} /",
                   "--customize-hook=chroot \"$1\" sh /trial/trial.sh", release, "/dev/null",
                   *(f"deb {uri} {suite} main" for uri, suite in rows))
    print(done.stdout + done.stderr)
    sys.exit(1 if done.returncode else 0)


main()
