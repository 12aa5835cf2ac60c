"""Debian's kernels, from the mirror of the system's apt sources, unpacked and never installed.

Uses apt with a configuration of its own: the system's sources and lists stay as they are. apt
verifies the signatures."""

import os
import pathlib
import re
import shutil
import subprocess
import time

from machines.attempt import Unavailable

KEYRING = pathlib.Path("/usr/share/keyrings/debian-archive-keyring.gpg")
MIRROR = "http://deb.debian.org/debian"
# Debian moves releases there that it no longer supports.
ARCHIVE = "http://archive.debian.org/debian"
SECONDS_OF_A_MONTH = 30 * 24 * 3600


def mirror():
    """The mirror from which this system installs, or Debian's."""
    listed = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE)", "Label: Debian",
                             "Created-By: Packages"], capture_output=True, text=True)
    return (listed.stdout.split() or [MIRROR])[0]


class Apt:
    """apt for one suite and one architecture, whose state is in the folder."""

    def __init__(self, folder, suite, architecture, site):
        self.folder = folder / f"{suite}-{architecture}"
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        sources = self.folder / "sources.list"
        sources.write_text(f"deb [arch={architecture} signed-by={KEYRING}] {site} {suite} main\n")
        self.options = [word for setting in (
            f"Dir::Etc::sourcelist={sources}", f"Dir::Etc::sourceparts={self.folder}/parts",
            f"Dir::State::lists={self.folder}/lists", f"Dir::Cache={self.folder}/cache",
            "Dir::State::status=/dev/null", f"APT::Architecture={architecture}",
            f"APT::Architectures={architecture}", "Acquire::Languages=none",
            # Otherwise root downloads as another user, to whom the folder may be closed.
            f"APT::Sandbox::User={'root' if os.geteuid() == 0 else ''}",
        ) for word in ("-o", setting)]

    def call(self, program, *words, folder="."):
        done = subprocess.run([program, *self.options, *words], cwd=folder, capture_output=True,
                              text=True, timeout=600)
        if done.returncode != 0:
            raise Unavailable(f"{program} {' '.join(words)}: "
                              + (done.stderr.strip().splitlines() or ["failed"])[-1])
        return done.stdout

    def update(self):
        self.call("apt-get", "update", "--error-on=any")

    def has(self, package):
        return package in self.call("apt-cache", "pkgnames", package).split()

    def first_dependency(self, package, pattern):
        found = re.search(rf"Depends: ({pattern})$",
                          self.call("apt-cache", "depends", package), re.MULTILINE)
        if not found:
            raise Unavailable(f"{package} depends on no {pattern}")
        return found.group(1)

    def unpack(self, package, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.call("apt-get", "download", package, folder=folder)
        for archive in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
            archive.unlink()


def image_in(folder):
    """The newest kernel image below the folder, or None."""
    return max([*folder.glob("boot/vmlinuz-*"), *folder.glob("usr/lib/modules/*/vmlinuz*")],
               default=None)


def download_kernel(folder, suite, architecture, into):
    error = None
    for site in (mirror(), ARCHIVE):
        apt = Apt(folder, suite, architecture, site)
        try:
            apt.update()
            break
        except Unavailable as refused:
            error = error or refused
    else:
        raise error
    # The kernel for virtual machines is a third of the usual one's size.
    package = apt.first_dependency(f"linux-image-cloud-{architecture}", r"linux-image-\d\S*")
    # Since Linux 6.16 the image is in a package of its own.
    binary = package.replace("linux-image-", "linux-binary-")
    fresh = into.with_name(into.name + ".new")
    apt.unpack(binary if apt.has(binary) else package, fresh)
    if not image_in(fresh):
        raise Unavailable(f"{package} of {suite} contains no kernel image")
    shutil.rmtree(into, ignore_errors=True)
    fresh.rename(into)


def kernel_image(folder, suite, architecture, version=""):
    """The image of the suite's newest kernel for virtual machines, downloaded once a month.
    version: how its version must begin."""
    if not shutil.which("apt-get"):
        raise Unavailable("no apt-get: Debian's kernels are downloaded with it")
    if not KEYRING.exists():
        raise Unavailable(f"no {KEYRING} (package debian-archive-keyring)")
    into = folder / f"{suite}-{architecture}/kernel"
    if not image_in(into) or time.time() - into.stat().st_mtime > SECONDS_OF_A_MONTH:
        try:
            download_kernel(folder, suite, architecture, into)
            os.utime(into)
        except (Unavailable, subprocess.SubprocessError) as error:
            if not image_in(into):
                raise Unavailable(f"Debian's kernel of {suite}: {error}") from error
    image = image_in(into)
    if version not in str(image.relative_to(into)):
        raise Unavailable(f"{suite} has {image.name}, not Linux {version}")
    return image
