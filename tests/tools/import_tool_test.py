#!/usr/bin/env python3
"""The user interface of `wherry import`: traces of accesses that other tools recorded, what replays
of them count, and messages on wrong input.

Usage: import_tool_test.py PROGRAM
"""

import json
import os
import pathlib
import tempfile

import cli_test
from cli_test import Case, wherry
from replay_tool_test import costs

TURNS = 10
PING_PONG = "time_us,address,thread,processor,access\n" + "".join(
    f"{turn * 100},0x7f0000000000,{1 + turn % 2},{('host', 'dev0')[turn % 2]},write\n"
    for turn in range(TURNS))
DAMON = """base_time_absolute: 8 m 59.809 s
data source: unknown

monitoring_start:          104.599 ms
monitoring_end:            208.590 ms
monitoring_duration:       103.991 ms
target_id: 18446623438842320000
nr_regions: 2
# start_addr     end_addr        length  nr_accesses   age
563ebaa00000-563ebaa10000 (  64.000 KiB)           4    -1
563ebadf3000-563ebafec000 (   1.973 MiB)           0    -1
"""
PERF = """\
  worker  4712/4713  [003] 1540823.804575:   cpu/mem-loads,ldlat=30/P:      7f938d7e1040
    main  4712/4712  [001] 1540823.804766:   cpu/mem-stores/P:              7f938d7e1000
    main  4712/4712  [001] 1540823.804766:   cpu/mem-stores/P:                         0
"""


class Import(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.source = self.folder / "source"
        self.trace = self.folder / "x.trace"

    def run_import(self, text, *arguments):
        self.source.write_text(text)
        return wherry("import", self.source, "-o", self.trace, *arguments)

    def imported(self, text, *arguments):
        done = self.run_import(text, *arguments)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(os.listdir(self.folder)), ["source", "x.trace"])
        return done.stdout

    def report(self):
        return json.loads(wherry("trace", self.trace, "--format", "json").stdout)

    def replay(self, *arguments):
        cost = self.folder / "cost.json"
        cost.write_text(json.dumps(costs()))
        return self.good_json("replay", self.trace, "--cost", cost, *arguments)

    def test_a_replay_of_a_ping_pong_counts_its_moves(self):
        self.assertIn(f"{TURNS} accesses to 1 pages in 1 ranges, 1 devices",
                      self.imported(PING_PONG))
        report = self.replay()
        self.assertEqual(report["recorded_policy"], "")
        self.assertEqual(report["recorded"]["migrations"], 0)
        policies = report["policies"]
        self.assertEqual(policies["migrate-always"]["migrations"], TURNS - 1)
        for name in ("remote-always", "first-touch"):
            self.assertEqual(policies[name]["migrations"], 0, name)
            self.assertEqual(policies[name]["remotely_mapped_pages"], 1, name)

    def test_the_reports_say_that_no_policy_was_in_force(self):
        self.imported(PING_PONG)
        self.assertIn("policy: none", wherry("trace", self.trace).stdout)
        self.replay()
        done = wherry("replay", self.trace, "--cost", self.folder / "cost.json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("imported", done.stdout)

    def test_rules_say_which_threads_are_devices(self):
        out = self.imported(PERF, "--format", "perf", "--assign", "work*=dev1", "--capacity", "8M")
        self.assertIn("2 accesses to 1 pages in 1 ranges, 2 devices", out)
        self.assertIn("1 records have no address", out)
        report = self.report()
        faults = [(event["destination"], event["access"]) for event in report["events"]
                  if event["kind"] == "fault"]
        self.assertEqual(faults, [(2, "read"), (0, "write")])
        self.assertEqual([processor["capacity"] for processor in report["machine"]["processors"]],
                         [0, 8 << 20, 8 << 20])

    def test_regions_of_damon_are_their_pages(self):
        self.assertIn("16 accesses to 16 pages in 1 ranges",
                      self.imported(DAMON, "--format", "damon", "--assign", "*=dev0"))
        report = self.report()
        self.assertEqual([name["name"] for name in report["names"]], ["0x563ebaa00000"])
        self.assertEqual({event["destination"] for event in report["events"]
                          if event["kind"] == "fault"}, {1})

    def test_pages_may_be_larger(self):
        self.assertIn("16 accesses to 16 pages",
                      self.imported("time_ns,address\n0,0x12345\n", "--page", "64K"))

    def test_wrong_lines_are_named_and_an_older_trace_stays(self):
        self.trace.write_text("old")
        for arguments, text, words in (
                ((), PING_PONG + "1,2\n", f":{TURNS + 2}: it has 2 fields"),
                ((), DAMON, ":1: there is no column 'base_time_absolute"),
                (("--format", "damon"), PERF, ":1: 'worker"),
                (("--format", "perf"), DAMON, ":1: there is no time"),
                ((), "time_ns,address\n", "it has no accesses"),
                (("--devices", "1"), "time_ns,address,processor\n1,2,dev1\n", ":2: there is no"),
                (("--assign", "3=dev0"), PING_PONG, "--assign 3=dev0: no access"),
                (("--assign", "1=dev1", "--devices", "1"), PING_PONG, "--assign names dev1")):
            with self.subTest(words=words):
                self.assert_complaint(self.run_import(text, *arguments), 1, words)
                self.assertEqual(self.trace.read_text(), "old")
                self.assertEqual(sorted(os.listdir(self.folder)), ["source", "x.trace"])

    def test_files_that_are_not_there(self):
        self.assert_complaint(wherry("import", "/nonexistent", "-o", self.trace), 1,
                              "/nonexistent: No such file")
        self.source.write_text(PING_PONG)
        for place, words in (("/nonexistent/x", "No such file"), (self.folder, "Is a directory"),
                             ("/dev/null", "it is no regular file")):
            self.assert_complaint(wherry("import", self.source, "-o", place), 2,
                                  f"cannot write {place}: {words}")

    def test_wrong_flags_with_one_line(self):
        for arguments in ([], ["x"], ["x", "-o", "y", "--format", "json"],
                          ["x", "-o", "y", "--page", "5000"], ["x", "-o", "y", "--page", "4M"],
                          ["x", "-o", "y", "--devices", "9"], ["x", "-o", "y", "--assign", "main"],
                          ["x", "-o", "y", "--assign", "main=gpu"]):
            with self.subTest(arguments=arguments):
                self.assert_complaint(wherry("import", *arguments), 2)

    def test_help(self):
        done = wherry("import", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--assign", done.stdout)


if __name__ == "__main__":
    cli_test.main()
