#!/usr/bin/env python3
"""tools/configure notices that the packages have changed since it configured a folder, and
configures it anew: what was missing is found, options stay, and nothing is compiled again.

Usage: configure_test.py SOURCE_ROOT
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from length import is_turn_of  # noqa: E402

SOURCE = pathlib.Path(sys.argv.pop())
# A library with a file for pkg-config, and one that is found by its header, as some examples need.
PROJECT = """
project('trial', 'c')
new = dependency('trial-library', required: false).found()
old = meson.get_compiler('c').find_library('c', has_headers: 'trial.h', required: false).found()
message('found', new, old, get_option('flavour'), get_option('buildtype'))
executable('program', 'program.c')
if new
  executable('needs_new', 'program.c')
endif
if old
  executable('needs_old', 'program.c')
endif
"""
OPTIONS = "option('flavour', type: 'string', value: 'none')\n"
LIBRARY = "Name: trial\nDescription: trial\nVersion: 1\n"


class Configure(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="wherry-configure-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.build, self.packages = self.root / "build", self.root / "packages"
        for name in ("tools", "packages"):
            (self.root / name).mkdir()
        for name in ("configure", "packages.txt"):
            shutil.copy(SOURCE / "tools" / name, self.root / "tools")
        (self.root / "meson.build").write_text(PROJECT)
        (self.root / "meson_options.txt").write_text(OPTIONS)
        (self.root / "program.c").write_text("int main(void) { return 0; }\n")
        self.environment = os.environ | {"PKG_CONFIG_PATH": str(self.packages),
                                         "CFLAGS": f"-I{self.packages}", "CCACHE_DISABLE": "1"}

    def run_in_root(self, *command, expected=0):
        done = subprocess.run(command, cwd=self.root, env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, expected, done.stdout)
        return done.stdout

    def configure(self, *options, expected=0):
        return self.run_in_root("tools/configure", "build", *options, expected=expected)

    def install(self, name="anything.pc", text=LIBRARY):
        (self.packages / name).write_text(text)

    def compile(self):
        return self.run_in_root("ninja", "-C", "build")

    def test_a_package_that_was_installed_since_is_found(self):
        self.configure("-Dflavour=sour")
        self.run_in_root("meson", "configure", "build", "-Dbuildtype=release")
        self.compile()
        program = (self.build / "program").stat().st_mtime_ns
        self.install("trial-library.pc")
        self.install("trial.h", "")
        del self.environment["CFLAGS"]  # the folder keeps its own
        self.assertEqual(self.configure(), "")
        self.compile()
        self.assertTrue((self.build / "needs_new").exists())
        self.assertTrue((self.build / "needs_old").exists())
        self.assertEqual((self.build / "program").stat().st_mtime_ns, program)
        log = (self.build / "meson-logs/meson-log.txt").read_text()
        self.assertIn("found true true sour release", log)

    def test_nothing_is_done_while_the_packages_are_the_same(self):
        self.configure()
        configured = (self.build / "build.ninja").stat().st_mtime_ns
        self.install("wherry.pc")  # a setting that finds Wherry itself changes nothing
        self.configure()
        self.assertEqual((self.build / "build.ninja").stat().st_mtime_ns, configured)

    def test_a_failure_leaves_the_old_configuration(self):
        self.configure()
        (self.root / "meson.build").write_text(PROJECT + "error('this fails')\n")
        self.install()
        self.assertIn("this fails", self.configure(expected=1))
        (self.root / "meson.build").write_text(PROJECT)
        self.compile()
        self.configure()
        self.assertIn("found false", (self.build / "meson-logs/meson-log.txt").read_text())

    def test_a_folder_of_meson_alone_is_left_alone(self):
        self.run_in_root("meson", "setup", "build")
        configured = (self.build / "build.ninja").stat().st_mtime_ns
        self.install()
        self.configure()
        self.assertEqual((self.build / "build.ninja").stat().st_mtime_ns, configured)


if is_turn_of("test of the configuration"):
    unittest.main()
