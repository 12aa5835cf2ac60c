#!/usr/bin/env python3
"""tools/soak runs a part until its time is over, adds up its figures, and keeps the files of
failures.

Usage: soak_test.py SOAK
"""

import importlib.machinery
import importlib.util
import itertools
import pathlib
import sys
import tempfile
import unittest
import unittest.mock


def load(path):
    loader = importlib.machinery.SourceFileLoader(pathlib.Path(path).stem, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    sys.dont_write_bytecode = True
    loader.exec_module(module)
    return module


soak = load(sys.argv.pop(1))


class Soak(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        soak.FOLDER = soak.ROOT = pathlib.Path(folder.name)
        soak.GRACE_S = 1
        soak.progress = lambda text: None

    def run_part(self, script, seconds=0, **row):
        part = {"name": "part", "program": sys.executable, "arguments": ["-c", script]} | row
        result = soak.Result(part)
        soak.run_part(part, seconds, 7, result)
        return result

    def test_figures_are_read_from_the_last_line_of_the_part(self):
        text = "model: 1 operations\nmodel: 12 operations, 3 processes, 0 failures\nother: 5"
        self.assertEqual(soak.figures_of(text, "model"),
                         {"operations": 12, "processes": 3, "failures": 0})
        self.assertEqual(soak.figures_of("kills: 4, lost: 0", "kills"), {"kills": 4, "lost": 0})
        self.assertEqual(soak.figures_of("injection: pairs covered 3 of 9", "injection"),
                         {"pairs covered": (3, 9)})
        self.assertEqual(soak.figures_of("nothing", "model"), {})

    def test_every_part_says_what_has_to_be_built_for_it(self):
        for part in soak.PARTS:
            self.assertTrue(all(target.startswith("tests/") for target in soak.targets_of(part)),
                            part["name"])

    def test_fuzzers_are_called_as_their_script_expects(self):
        words = [word.format(root="R", seconds="7", seed="1", folder="F")
                 for word in soak.fuzz_part("cost")["arguments"][1:]]
        arguments = load(pathlib.Path(__file__).parent.parent / "fuzz/fuzz.py").parse(words)
        self.assertEqual((arguments.names, arguments.seconds, arguments.new), (["cost"], 7, "F"))

    def test_a_part_runs_again_with_the_next_seed_while_there_is_time(self):
        script = "import os; print('part: 2 steps, seed', os.environ['WHERRY_TEST_SEED'])"
        with unittest.mock.patch.object(soak.time, "monotonic",
                                        side_effect=itertools.count(step=4)):
            result = self.run_part(script, seconds=19)
        self.assertEqual((result.runs, result.failures), (3, 0))
        self.assertEqual(result.figures, {"steps": 6, "seed": 7 + 8 + 9})
        self.assertEqual(list(soak.FOLDER.iterdir()), [])

    def test_a_failure_leaves_its_folder_with_command_and_log(self):
        result = self.run_part("import sys; print('seen'); sys.exit(3)")
        self.assertEqual((result.runs, result.failures, result.folders), (1, 1, ["part-7"]))
        self.assertIn("seen", (soak.FOLDER / "part-7/log").read_text())
        self.assertIn("WHERRY_TEST_SEED=7", (soak.FOLDER / "part-7/command").read_text())

    def test_a_line_that_only_a_defect_can_cause_is_a_failure_of_a_part_that_ends_well(self):
        result = self.run_part(f"print('wherry: 0x1000: {soak.defects.LINES[0]}')")
        self.assertEqual((result.runs, result.failures, result.folders), (1, 1, ["part-7"]))

    def test_a_part_that_does_not_end_is_a_failure(self):
        result = self.run_part("import time; time.sleep(600)")
        self.assertEqual(result.failures, 1)
        self.assertIn("did not end", (soak.FOLDER / "part-7/log").read_text())

    def test_a_part_that_cannot_run_here_is_skipped_with_the_reason(self):
        result = self.run_part("import sys; print('SKIP: no such thing'); sys.exit(77)")
        self.assertEqual((result.failures, result.skipped), (0, "no such thing"))

    def test_the_length_fits_the_time(self):
        result = self.run_part("import os; scale = os.environ['WHERRY_TEST_SCALE']; "
                               "print('part: 1 of', scale); assert float(scale) <= 0.1",
                               seconds=1, full=10)
        self.assertEqual(result.failures, 0)

    def test_totals_sum_over_parts_of_one_line(self):
        results = []
        for name, figures in (("model", {"operations": 5}), ("model-mprotect", {"operations": 6}),
                              ("fuzz-elf", {"elf executions": 7})):
            results.append(soak.Result({"name": name, "line": name.partition("-")[0]}))
            results[-1].add(figures)
        self.assertEqual(soak.total_of(results, "model", "operations"), 11)
        self.assertEqual(soak.total_of(results, "fuzz", "executions"), 7)
        self.assertIsNone(soak.total_of(results, "kills", "kills"))


if __name__ == "__main__":
    unittest.main()
