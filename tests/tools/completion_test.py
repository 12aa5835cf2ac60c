#!/usr/bin/env python3
"""bash completes the commands and options of `wherry`.

Usage: completion_test.py TOOL COMPLETION
"""

import subprocess
import sys
import unittest

TOOL, COMPLETION = sys.argv[1:]


def completions(*words):
    """What bash offers for the last word."""
    script = """
source "$1"; shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_wherry
printf '%s\\n' "${COMPREPLY[@]}"
"""
    done = subprocess.run(["bash", "-c", script, "bash", COMPLETION, TOOL, *words],
                          capture_output=True, text=True, check=True)
    return done.stdout.split()


class Completion(unittest.TestCase):
    def test_commands(self):
        self.assertIn("info", completions(""))
        self.assertEqual(completions("re"), ["record", "report", "replay"])
        self.assertEqual(completions("bench", "nu"), ["numa"])

    def test_options_of_the_command(self):
        self.assertEqual(completions("bench", "numa", "--m"), ["--method"])
        self.assertEqual(completions("bench", "numa", "--from", "0", "--t"), ["--to"])
        self.assertEqual(completions("import", "--ou"), ["--output"])
        self.assertIn("-o", completions("import", "-"))
        self.assertNotIn("--method", completions("bench", "-"))

    def test_files(self):
        self.assertEqual(completions("trace", COMPLETION[:-1]), [COMPLETION])
        self.assertEqual(completions("record", "--", COMPLETION[:-1]), [COMPLETION])

    def test_no_command(self):
        self.assertEqual(completions("nonsense", "--met"), [])


unittest.main(argv=sys.argv[:1])
