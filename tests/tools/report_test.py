#!/usr/bin/env python3
"""The user interface of `wherry report` and `wherry record --summary`: the page, what it proposes,
and messages on wrong input.

Usage: report_test.py PROGRAM ADVISED UPLOT
  ADVISED  the program of advised.cc
  UPLOT    the folder of the library that draws the page's charts
"""

import base64
import collections
import hashlib
import html.parser
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

import cli_test
from cli_test import Case, wherry
from held_events import add_held_pages

# Under this policy every move has a fault as its cause. Nothing that happens in the background
# changes the number of faults.
DEVICE = {"WHERRY_DEVICES": "capacity=64M,workers=1", "WHERRY_POLICY": "migrate-always",
          "WHERRY_HUGE_PAGES": "arriving"}
ADVISED = ""
ADVISED_BYTES = 4 << 20  # of its memory
UPLOT = ""


class Parts(html.parser.HTMLParser):
    """The elements of a page, and the text of its scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts = [], collections.defaultdict(list)
        self.open = None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag in ("script", "style", "title"):
            self.open = (tag, dict(attributes).get("id"))

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open:
            self.texts[self.open].append(data)


def data_of(page):
    return json.loads("".join(Parts(page.read_text()).texts["script", "data"]))


class Folder(Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.trace, self.page = self.folder / "x.trace", self.folder / "x.html"

    def record(self, *program, environment=DEVICE):
        done = wherry("record", "-o", self.trace, "--", *program, environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    def report(self):
        done = wherry("report", self.trace, "-o", self.page)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.startswith(f"{self.page}: "), done.stdout)
        return data_of(self.page)

    def events(self):
        return json.loads(wherry("trace", self.trace, "--format", "json").stdout)["events"]


class Page(Folder):
    def setUp(self):
        super().setUp()
        self.record(cli_test.PROGRAM, "cg", "--poisson", "64")

    def test_the_page_loads_nothing(self):
        self.report()
        text = self.page.read_text()
        page = Parts(text)
        tags = {tag for tag, _ in page.elements}
        self.assertFalse(tags & {"link", "img", "iframe", "object", "embed", "base", "a"}, tags)
        for tag, attributes in page.elements:
            self.assertFalse(set(attributes) & {"src", "href", "srcset", "action"}, attributes)
        for style in page.texts["style", None]:
            self.assertNotRegex(style, r"url\(|@import")
        self.assertRegex(text, r'Content-Security-Policy"\s+content="default-src \'none\';')
        self.assertNotIn("{{", "".join(page.texts["script", None][-1:]))
        self.assertLess(self.page.stat().st_size, 4 << 20)
        self.assertIn((UPLOT / "LICENSE").read_text(), text)

    def test_pages_that_were_held_are_a_finding(self):
        memory = add_held_pages(self.trace)
        done = wherry("report", self.trace, "-o", self.page)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        sentence = (f"{memory} could not move 2 times, because a system call, a pipe or another "
                    "process held its pages")
        self.assertIn(f"  {sentence}\n", done.stdout)
        data = data_of(self.page)
        finding, = [finding for finding in data["findings"] if finding["proposal"] == "pin"]
        self.assertEqual((finding["memory"], finding["observation"], finding["pages"]),
                         (memory, sentence, 5))
        self.assertEqual({one["name"]: one["held_bytes"] for one in data["memory"]
                          if one["held_bytes"]}, {memory: 5 * 4096})

    def test_the_counts_are_those_of_the_trace(self):
        data, events = self.report(), self.events()
        self.assertEqual(data["about"]["events"], len(events))
        for index, processor in enumerate(("host", "device 0")):
            line, = [line for line in data["timelines"]["faults"] if line["name"] == processor]
            self.assertEqual(sum(line["values"]),
                             sum(event["kind"] == "fault" and event["destination"] == index
                                 for event in events))
        moved = sum(event["bytes"] for event in events if event["kind"] == "migration")
        self.assertEqual(sum(sum(line["values"]) for line in data["timelines"]["moved_bytes"]),
                         moved)
        self.assertEqual(sum(memory["moved_bytes"] for memory in data["memory"]), moved)
        for memory in data["memory"]:
            faults = [event for event in events if event["kind"] == "fault"
                      and event["name"] == memory["name"]]
            if " at 0x" not in memory["name"]:
                self.assertEqual(memory["faults"], len(faults), memory["name"])
        self.assertEqual(sum(kernel["launches"] for kernel in data["kernels"]),
                         sum(event["kind"] == "launch" for event in events))

    def test_the_page_says_what_the_program_ran_under(self):
        about = self.report()["about"]
        self.assertIn("cg --poisson 64", about["program"])
        self.assertEqual(about["settings"]["policy"], "migrate-always")
        self.assertEqual(about["settings"]["environment"]["WHERRY_POLICY"], "migrate-always")
        version = wherry("--version").stdout.strip()
        self.assertEqual(about["settings"]["version"], version)
        self.assertEqual([processor["name"] for processor in about["processors"]],
                         ["host", "device 0"])
        self.assertEqual(about["processors"][1]["capacity"], 64 << 20)
        self.assertIs(about["few_accesses"], False)
        self.record(cli_test.PROGRAM, "cg", "--poisson", "8", "--policy", "first-touch")
        self.assertIs(self.report()["about"]["few_accesses"], True)
        self.assertIn("leaves pages mapped", wherry("trace", self.trace).stdout)

    def test_the_map_has_each_named_memory_and_where_it_is(self):
        data = self.report()
        names = [segment["name"] for segment in data["map"]["segments"]]
        for name in ("A of device 0", "p of device 0", "vectors"):
            self.assertIn(name, names)
        shares = [text and base64.b64decode(text) for text in data["map"]["shares"]]
        self.assertEqual(len(shares), 3)
        cells = data["map"]["rows"] * data["bins"]["count"]
        self.assertEqual({len(share) for share in shares if share}, {cells})

        # The bin of the last kernel. How much of the recording's time passes after it, when the
        # memory is free, depends on the build: leak checks at the exit of the program take long.
        trace = json.loads(wherry("trace", self.trace, "--format", "json").stdout)
        last = max(event["time_ns"] for event in trace["events"] if event["kind"] == "launch")
        column = (last - trace["machine"]["start_ns"]) // data["bins"]["width_ns"]

        def at_the_last_kernel(name, holder):
            return [shares[holder][row * data["bins"]["count"] + column]
                    for segment in data["map"]["segments"] if segment["name"] == name
                    for row in range(segment["first_row"], segment["first_row"] + segment["rows"])]

        self.assertGreater(min(at_the_last_kernel("A of device 0", 1)), 0)
        self.assertEqual(max(at_the_last_kernel("A of device 0", 0)), 0)

    def test_names_cannot_break_the_page(self):
        evil = "</script><script>alert(1)</script>"
        self.record(cli_test.PROGRAM, "cg", "--poisson", "8",
                    environment=DEVICE | {"WHERRY_EVIL": evil})
        data = self.report()
        self.assertEqual(data["about"]["settings"]["environment"]["WHERRY_EVIL"], evil)
        self.assertNotIn(evil, self.page.read_text())

    def test_a_trace_that_breaks_off_is_reported_up_to_there(self):
        # Within the last chunk, after all events: a fast machine writes all events in one chunk.
        self.trace.write_bytes(self.trace.read_bytes()[:-1])
        data = self.report()
        self.assertIs(data["about"]["complete"], False)
        self.assertEqual(data["about"]["events"], len(self.events()))
        self.assertGreater(data["about"]["events"], 0)

    def test_a_trace_without_events_is_a_page_that_says_so(self):
        whole = self.trace.read_bytes()
        first = 12 + 12 + int.from_bytes(whole[16:20], "little")
        self.trace.write_bytes(whole[:first])
        data = self.report()
        self.assertEqual((data["about"]["events"], data["findings"], data["memory"]), (0, [], []))
        self.assertEqual(data["map"]["rows"], 0)


class Advice(Folder):
    """Each proposal, when a program follows it, saves faults or moves."""

    def counts(self, *program, environment=DEVICE):
        """The faults on each memory, the bytes that moved, and the findings, by memory."""
        self.record(*program, environment=environment)
        data = self.report()
        faults = collections.Counter({row["name"]: row["faults"] for row in data["memory"]})
        moved = collections.Counter({row["name"]: row["moved_bytes"] for row in data["memory"]})
        return faults, moved, data["findings"]

    def finding(self, findings, memory, proposal):
        found = [finding for finding in findings
                 if (finding["memory"], finding["proposal"]) == (memory, proposal)]
        self.assertTrue(found, findings)
        for key in ("observation", "evidence", "attempt"):
            self.assertTrue(found[0][key])
            self.assertFalse(found[0][key].endswith("..") or "\n" in found[0][key])
        return found[0]

    def follow(self, pattern, proposal):
        """The counts of a program, and of the same program when it does what was proposed: faults,
        moved bytes.
        """
        faults, moved, findings = self.counts(ADVISED, pattern)
        finding = self.finding(findings, "data", proposal)
        # The least of several runs: Linux's khugepaged merges pages at any time, and each access to
        # them faults once more then.
        better_faults, better_moved, left = min(
            (self.counts(ADVISED, pattern, proposal, finding["processor"]) for _ in range(3)),
            key=lambda counts: counts[0]["data"])
        keys = ("memory", "proposal", "processor")
        self.assertNotIn([finding[key] for key in keys],
                         [[other[key] for key in keys] for other in left])
        return faults["data"], moved["data"], better_faults["data"], better_moved["data"]

    def test_read_mostly_ends_the_moves_of_a_table(self):
        faults, moved, better_faults, better_moved = self.follow("table", "read-mostly")
        self.assertGreaterEqual(moved, 10 * ADVISED_BYTES)
        self.assertEqual(better_moved, 0)
        self.assertLess(4 * better_faults, faults)

    def test_a_preferred_location_ends_the_moves_of_an_exchange(self):
        faults, moved, better_faults, better_moved = self.follow("exchange", "preferred-location")
        self.assertGreater(moved, 10 * ADVISED_BYTES)
        self.assertLessEqual(better_moved, ADVISED_BYTES)
        self.assertLess(4 * better_faults, faults)

    def test_a_prefetch_saves_the_faults_of_a_sweep(self):
        faults, _, better_faults, _ = self.follow("sweep", "prefetch")
        self.assertLess(better_faults, faults - 20)

    def test_accessed_by_saves_the_way_there_and_back(self):
        faults, moved, better_faults, better_moved = self.follow("visit", "accessed-by")
        self.assertGreaterEqual(moved, 2 * ADVISED_BYTES)
        self.assertEqual(better_moved, 0)
        self.assertLess(better_faults, faults - 40)

    def test_the_solver_s_vectors_stay_when_it_follows_the_advice(self):
        solver = (cli_test.PROGRAM, "cg", "--poisson", "96", "--devices", "1")
        faults, moved, findings = self.counts(*solver)
        for name in ("p of device 0", "q of device 0"):
            finding = self.finding(findings, name, "preferred-location")
            self.assertEqual(finding["processor"], "device 0")
            self.assertRegex(finding["observation"],
                             rf"^{name} moves \d+ times between the host and device 0: "
                             r"(the host|device 0) writes it, and (the host|device 0) reads it$")
        better_faults, better_moved, left = self.counts(*solver, "--advise")
        self.assertEqual(better_moved.total(), 0)
        self.assertLess(4 * better_faults.total(), faults.total())
        self.assertGreater(moved.total(), 1 << 20)
        self.assertFalse([finding for finding in left if "device 0" in finding["memory"]
                          and finding["proposal"] != "prefetch"], left)

    def test_more_capacity_ends_evictions(self):
        def report_with(capacity):
            self.record(ADVISED, "sweep",
                        environment=DEVICE | {"WHERRY_DEVICES": f"capacity={capacity},workers=1"})
            data = self.report()
            return (sum(memory["evicted_bytes"] for memory in data["memory"]),
                    [finding for finding in data["findings"] if finding["proposal"] == "capacity"])

        evicted, findings = report_with("2M")
        self.assertGreater(evicted, 64 * 4096)
        self.assertEqual([finding["processor"] for finding in findings], ["device 0"])
        self.assertTrue(findings[0]["observation"].startswith("Device 0 has too little memory"))
        self.assertEqual(report_with("64M"), (0, []))


class Summary(Case):
    def test_the_summary_is_that_of_the_trace_and_no_trace_is_left(self):
        with tempfile.TemporaryDirectory() as folder:
            done = wherry("record", "--summary", "--", "sh", "-c",
                          f"'{os.path.abspath(cli_test.PROGRAM)}' cg --poisson 16 --json; exit 3",
                          environment=DEVICE | {"TMPDIR": folder})
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, 3)
        self.assertEqual(json.loads(done.stdout)["rows"], 256)
        self.assertIn("cg --poisson 16", done.stderr)
        self.assertIn("policy: migrate-always\n", done.stderr)
        self.assertRegex(done.stderr, r"\nmigration, fault +[0-9]+ ")
        self.assertNotIn("the trace is in", done.stderr)

    def test_with_a_name_the_trace_is_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "x.trace"
            done = wherry("record", "--summary", "-o", trace, "--", cli_test.PROGRAM, "cg",
                          "--poisson", "16", environment=DEVICE)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"the trace is in {trace}", done.stderr)
            self.assertTrue(done.stderr.endswith(wherry("trace", trace).stdout))

    def test_a_program_without_the_library_has_no_summary(self):
        self.assert_complaint(wherry("record", "--summary", "--", "sh", "-c", "exit 5"), 5,
                              "no trace: sh did not start the library")
        self.assert_complaint(wherry("record", "--summary", "--", "/nonexistent"), 127)


class Refuse(Folder):
    def test_what_is_no_trace(self):
        for content, words in ((b"", "is not a Wherry trace"), (b"a,b\n", "is not a Wherry trace"),
                               (b"WHERRYTR\1\0\0\0", "breaks off")):
            self.trace.write_bytes(content)
            self.assert_complaint(wherry("report", self.trace, "-o", self.page), 1,
                                  "x.trace: ", words)
        self.assert_complaint(wherry("report", self.folder, "-o", self.page), 1, "Is a directory")
        self.assert_complaint(wherry("report", "/dev/zero", "-o", self.page), 1,
                              "/dev/zero: it is no regular file")
        self.assert_complaint(wherry("report", "/nonexistent.trace", "-o", self.page), 1,
                              "/nonexistent.trace: No such file")
        self.assertFalse(self.page.exists())

    def test_a_page_that_cannot_be_written(self):
        self.trace.write_bytes(b"WHERRYTR\1\0\0\0")
        for page, words in (("/nonexistent/x.html", "No such file"),
                            (self.folder, "Is a directory"), ("/dev/full", "it is no regular file"),
                            ("", "is empty"), (self.trace, "is the trace itself")):
            with self.subTest(page=page):
                self.assert_complaint(wherry("report", self.trace, "-o", page), 1, words)
        self.assertEqual(self.trace.read_bytes(), b"WHERRYTR\1\0\0\0")

    def test_wrong_flags_with_one_line(self):
        for arguments in (["report"], ["report", "a", "b"], ["report", "a", "-o"],
                          ["report", "--nonsense", "a"]):
            with self.subTest(arguments=arguments):
                self.assert_complaint(wherry(*arguments), 2)

    def test_help(self):
        done = wherry("report", "--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("report.html", done.stdout)


class Charts(unittest.TestCase):
    def test_the_files_of_the_library_are_those_that_its_page_lists(self):
        listed = re.findall(r"^\| `([^`]+)` \| `[^`]+` \| `([0-9a-f]{64})` \|$",
                            (UPLOT / "README.md").read_text(), re.MULTILINE)
        self.assertEqual({name for name, _ in listed},
                         {file.name for file in UPLOT.iterdir()} - {"README.md", "LICENSE"})
        for name, expected in listed:
            self.assertEqual(hashlib.sha256((UPLOT / name).read_bytes()).hexdigest(), expected)


if __name__ == "__main__":
    ADVISED, UPLOT = sys.argv[2], pathlib.Path(sys.argv[3])
    del sys.argv[2:4]
    cli_test.main()
