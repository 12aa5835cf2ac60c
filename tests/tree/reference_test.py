#!/usr/bin/env python3
"""The API reference and the manual pages are made without a warning, and have every function.

Usage: reference_test.py INCLUDE_FOLDER MAN_PAGES DOXYFILE
Without doxygen or mandoc that part is skipped; exit code 77. The reference takes some seconds, and
is made only at full length (without WHERRY_TEST_SCALE).
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

INCLUDE, MAN_PAGES, DOXYFILE = map(pathlib.Path, sys.argv[1:])
FUNCTION = re.compile(r"^(?:CUresult|const char\*) (?:CUDAAPI )?(\w+)\(", re.MULTILINE)


def functions_of(*headers):
    return {name for header in headers for name in FUNCTION.findall((INCLUDE / header).read_text())}


class ManualPages(unittest.TestCase):
    def test_each_function_of_wherry_has_a_page(self):
        pages = {page.stem for page in (MAN_PAGES / "man3").iterdir()}
        functions = functions_of("wherry/wherry.h", "wherry/events.h", "wherry/explain.h")
        self.assertGreater(len(functions), 30)
        self.assertEqual(functions - pages, set())

    def test_the_tool_s_page_has_commands_and_options(self):
        page = (MAN_PAGES / "man1/wherry.1").read_text()
        for text in (".SS wherry bench numa", ".SS wherry nvcc", ".B --min-size SIZE",
                     ".B -o,--output"):
            self.assertIn(text, page)

    @unittest.skipIf(shutil.which("mandoc") is None, "no mandoc (tools/setup test)")
    def test_no_page_has_a_warning(self):
        pages = sorted(MAN_PAGES.glob("man*/*"))
        lint = subprocess.run(["mandoc", "-Tlint", "-Wwarning", *pages], capture_output=True,
                              text=True)
        self.assertEqual(lint.stdout + lint.stderr, "")


if float(os.environ.get("WHERRY_TEST_SCALE", "1")) >= 1:
    @unittest.skipIf(shutil.which("doxygen") is None, "no doxygen (tools/setup test)")
    class Reference(unittest.TestCase):
        def test_it_is_made_without_a_warning_and_describes_each_function(self):
            with tempfile.TemporaryDirectory() as folder:
                settings = f"@INCLUDE = {DOXYFILE}\nOUTPUT_DIRECTORY = {folder}\n"
                made = subprocess.run(["doxygen", "-"], input=settings, capture_output=True,
                                      text=True)
                self.maxDiff = None
                self.assertEqual((made.returncode, made.stderr), (0, ""))
                pages = pathlib.Path(folder, "html").glob("*8h.html")
                text = "\n".join(page.read_text() for page in pages)
            for name in functions_of("wherry/wherry.h", "wherry/events.h", "wherry/explain.h"):
                self.assertIn(f">{name}</a>", text)
            self.assertIn("its physical address never changes", text)


if __name__ == "__main__":
    done = unittest.main(argv=sys.argv[:1], exit=False).result
    for _, reason in done.skipped:
        print(f"SKIP: {reason}")
    sys.exit(1 if not done.wasSuccessful() else 77 if done.skipped else 0)
