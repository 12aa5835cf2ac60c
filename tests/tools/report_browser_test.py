#!/usr/bin/env python3
"""The page of `wherry report` in a browser: it draws all of its charts, says nothing on the
console, and loads nothing. The last screenshot stays in the folder SCREENSHOTS, for people.

Usage: report_browser_test.py PROGRAM SCREENSHOTS
"""

import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

import cli_test
from cli_test import Case, wherry

TWO_DEVICES = {"WHERRY_DEVICES": "capacity=64M,workers=1;capacity=64M,workers=1",
               "WHERRY_POLICY": "migrate-always"}
BROWSER = shutil.which("chromium")
SCREENSHOTS = pathlib.Path()


def browse(page, *options):
    """Opens the page in a headless browser without a network."""
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run(
            [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={profile}", "--host-resolver-rules=MAP * ~NOTFOUND",
             "--enable-logging=stderr", "--window-size=1280,2600", *options, page.as_uri()],
            capture_output=True, text=True, timeout=120, env=os.environ | {"HOME": profile})


def shown_by(done):
    """What the page's script has made of it, without the script and its data."""
    assert 'data-drawn="true"' in done.stdout, done.stderr
    return done.stdout[done.stdout.index("<main>"):done.stdout.index("</main>")]


def pixels_of(png):
    """The colours of a picture with 8 bits for each of three or four components, as a set."""
    data, parts, at = png.read_bytes(), [], 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        content = data[at + 8:at + 8 + length]
        if kind == b"IHDR":
            width, _, _, colour_type = struct.unpack_from(">IIBB", content)
        if kind == b"IDAT":
            parts.append(content)
        at += 12 + length
    step = 4 if colour_type == 6 else 3
    raw = zlib.decompress(b"".join(parts))
    line_bytes = 1 + step * width
    before, colours = bytearray(step * width), set()
    for start in range(0, len(raw), line_bytes):
        line = bytearray(raw[start + 1:start + line_bytes])
        unfilter(raw[start], line, before, step)
        colours.update(bytes(line[i:i + 3]) for i in range(0, len(line), step))
        before = line
    return colours


def unfilter(kind, line, before, step):
    """Undoes a filter of PNG in one line."""
    for i in range(len(line)):
        left = line[i - step] if i >= step else 0
        up, corner = before[i], before[i - step] if i >= step else 0
        if kind == 4:
            guess = left + up - corner
            add = min((left, up, corner), key=lambda value: abs(guess - value))
        else:
            add = (0, left, up, (left + up) // 2)[kind]
        line[i] = (line[i] + add) & 255


class Browser(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = pathlib.Path(cls.folder.name) / "x.trace"
        cls.page = pathlib.Path(cls.folder.name) / "x.html"
        for command in (("record", "-o", cls.trace, "--", cli_test.PROGRAM, "cg", "--poisson",
                         "200"), ("report", cls.trace, "-o", cls.page)):
            done = wherry(*command, environment=TWO_DEVICES)
            assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_all_charts_and_tables_are_there_and_the_console_is_silent(self):
        done = browse(self.page, "--dump-dom")
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = shown_by(done)
        self.assertEqual(shown.count('<div class="uplot'), 4)
        findings = shown.count('<p class="observation">')
        self.assertGreaterEqual(findings, 4)
        self.assertEqual(shown.count('<p class="attempt">'), findings)
        self.assertIn("p of device 1 moves", shown)
        self.assertNotIn("CONSOLE", done.stderr)
        self.assertNotRegex(shown, r"NaN|undefined")

    def test_the_picture_has_the_colours_of_the_host_and_of_the_devices(self):
        picture = SCREENSHOTS / "report.png"
        done = browse(self.page, f"--screenshot={picture}")
        self.assertEqual(done.returncode, 0, done.stderr)
        colours = pixels_of(picture)
        for colour in ("0072b2", "e69f00", "009e73"):
            self.assertIn(bytes.fromhex(colour), colours)

    def test_a_page_without_events_says_so(self):
        whole = self.trace.read_bytes()
        empty = pathlib.Path(self.folder.name) / "empty.trace"
        empty.write_bytes(whole[:24 + int.from_bytes(whole[16:20], "little")])
        page = empty.with_suffix(".html")
        self.assertEqual(wherry("report", empty, "-o", page).returncode, 0)
        done = browse(page, "--dump-dom")
        self.assertIn("The trace has no events", shown_by(done))
        self.assertNotIn("CONSOLE", done.stderr)


if __name__ == "__main__":
    if BROWSER is None:
        print("SKIP: no browser (Debian's package chromium, about 300 MB with what it needs)")
        sys.exit(cli_test.SKIPPED)
    SCREENSHOTS = pathlib.Path(sys.argv[2])
    del sys.argv[2]
    cli_test.main()
