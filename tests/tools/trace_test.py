#!/usr/bin/env python3
"""The user interface of `wherry record` and `wherry trace`: the file, the reports, and messages on
wrong input.

Usage: trace_test.py PROGRAM
"""

import collections
import csv
import io
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

import cli_test
from cli_test import Case, wherry
from held_events import add_held_pages

# Under this policy every move has a fault as its cause.
DEVICE = {"WHERRY_DEVICES": "capacity=64M,workers=1", "WHERRY_POLICY": "migrate-always"}

COHERENT = "kind=coherent,capacity=64M,workers=1;kind=coherent,capacity=64M,workers=1"


def record(trace, *program, environment=DEVICE):
    return wherry("record", "-o", trace, "--", *program, environment=environment)


class Recorded(Case):
    """Reports on a trace of a solver's run."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.trace = pathlib.Path(cls.folder.name) / "cg.trace"
        cls.done = record(cls.trace, cli_test.PROGRAM, "cg", "--poisson", "32", "--json")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def report(self, form):
        done = wherry("trace", self.trace, "--format", form)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def events(self):
        return json.loads(self.report("json"))["events"]

    def test_the_program_runs_as_ever_and_one_line_says_where_the_trace_is(self):
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        self.assertEqual(json.loads(self.done.stdout)["rows"], 1024)
        self.assertEqual(self.done.stderr.count("\n"), 1)
        self.assertIn(f"the trace is in {self.trace}, {self.trace.stat().st_size} bytes",
                      self.done.stderr)
        self.assertEqual([entry.name for entry in self.trace.parent.iterdir()], ["cg.trace"])

    def test_the_settings_are_those_of_the_run(self):
        settings = json.loads(self.report("json"))["settings"]
        self.assertEqual(settings["policy"], "migrate-always")
        self.assertEqual(settings["policy_in_force"], "migrate-always")
        self.assertEqual(settings["kernel"], os.uname().release)
        self.assertEqual(settings["cpus"], len(os.sched_getaffinity(0)))
        self.assertIn(settings["cpu"], pathlib.Path("/proc/cpuinfo").read_text())
        self.assertGreaterEqual(settings["nodes"], 1)
        self.assertEqual(settings["environment"], DEVICE | {"WHERRY_TRACE": str(self.trace)})
        text = self.report("summary")
        self.assertIn("policy: migrate-always\n", text)
        self.assertIn(f"Wherry {settings['version']}, Linux {settings['kernel']}", text)
        self.assertIn("  WHERRY_POLICY=migrate-always\n", text)

    def test_the_policy_is_the_one_that_the_program_chose(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "x.trace"
            for arguments, environment, policy in (
                    (["--policy", "uvm,thrashing_nap=2"], DEVICE, "uvm,thrashing_nap=2"),
                    ([], {"WHERRY_DEVICES": DEVICE["WHERRY_DEVICES"]}, "auto")):
                done = record(trace, cli_test.PROGRAM, "cg", "--poisson", "8", *arguments,
                              environment=environment)
                self.assertEqual(done.returncode, 0, done.stderr)
                report = json.loads(wherry("trace", trace, "--format", "json").stdout)
                self.assertEqual(report["settings"]["policy"], policy)
                self.assertNotEqual(report["settings"]["policy_in_force"], "auto")

    def test_json_has_the_machine_and_the_events_in_order_of_time(self):
        report = json.loads(self.report("json"))
        self.assertIs(report["complete"], True)
        self.assertTrue(report["machine"]["program"].endswith(" cg --poisson 32 --json"))
        self.assertEqual(sum(report["dropped"].values()), 0)
        self.assertEqual([processor["name"] for processor in report["machine"]["processors"]],
                         ["host", "device 0"])
        self.assertEqual(report["machine"]["processors"][1]["capacity"], 64 << 20)
        events = report["events"]
        self.assertEqual([event["time_ns"] for event in events],
                         sorted(event["time_ns"] for event in events))
        counts = collections.Counter(event["kind"] for event in events)
        for kind in ("fault", "migration", "populate", "launch", "launch end", "allocation",
                     "free"):
            self.assertGreater(counts[kind], 0, kind)
        self.assertEqual(counts["launch"], counts["launch end"])
        for event in events:
            if event["kind"] == "migration":
                self.assertEqual(event["cause"], "fault")
                self.assertEqual({event["source"], event["destination"]}, {0, 1})
        self.assertTrue(any(name["of"] == "kernel" for name in report["names"]))

    def test_csv_has_the_same_events(self):
        rows = list(csv.DictReader(io.StringIO(self.report("csv"), newline="")))
        events = self.events()
        self.assertEqual(len(rows), len(events))
        for row, event in zip(rows, events):
            self.assertEqual(set(row), set(event))
            self.assertEqual(int(row["address"], 16), event["address"])
            for key in set(event) - {"address"}:
                self.assertEqual(row[key], str(event[key]), key)

    def test_chrome_has_a_process_for_each_processor_and_slices_that_do_not_overlap(self):
        report = json.loads(self.report("chrome"))["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in report
                 if event["name"] == "process_name"}
        self.assertEqual(sorted(names.values()), ["device 0", "host"])
        rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in report
                if event["name"] == "thread_name"}
        slices = collections.defaultdict(list)
        counts = collections.Counter()
        for event in report:
            if event["ph"] == "M":
                continue
            self.assertIn(event["pid"], names)
            self.assertIn((event["pid"], event["tid"]), rows)
            self.assertGreaterEqual(event["ts"], 0)
            counts[event["cat"] if event["cat"] == "kernels" else event["name"]] += 1
            if event["ph"] == "X":
                slices[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
        kinds = collections.Counter(event["kind"] for event in self.events())
        self.assertEqual(counts["kernels"], kinds["launch"])
        self.assertEqual(counts["migration"], kinds["migration"])
        self.assertEqual(counts["read fault"] + counts["write fault"], kinds["fault"])
        for row in slices.values():
            row.sort()
            for (_, end), (begin, _) in zip(row, row[1:]):
                self.assertLessEqual(end, begin + 0.002)  # as exact as the numbers are

    def test_the_summary_counts_what_the_events_are(self):
        text = self.report("summary")
        events = self.events()
        faults = [event for event in events if event["kind"] == "fault"]
        moves = [event for event in events if event["kind"] == "migration"]
        lines = {line[:40].strip(): line[40:].split() for line in text.splitlines()}
        self.assertEqual(int(lines["fault"][0]), len(faults))
        self.assertEqual(int(lines["migration, fault"][0]), len(moves))
        between = [int(lines[f"migration, {pair}"][0])
                   for pair in ("host -> device 0", "device 0 -> host")]
        self.assertEqual(sum(between), len(moves))
        self.assertAlmostEqual(float(lines["migration, fault"][1]),
                               sum(event["bytes"] for event in moves) / (1 << 20), places=2)
        for name in ("A of device 0", "p of device 0", "vectors"):
            self.assertGreater(int(lines[name][0]), 0, name)
            self.assertEqual(int(lines[name][0]), sum(event["name"] == name for event in faults))
        self.assertIn("No event was dropped.", text)

    def test_pages_that_were_held_are_in_every_report(self):
        self.assertNotIn("Held: ", self.report("summary"))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        trace = pathlib.Path(folder.name) / "held.trace"
        trace.write_bytes(self.trace.read_bytes())
        memory = add_held_pages(trace)

        def report(form):
            done = wherry("trace", trace, "--format", form)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return done.stdout

        held = [event for event in json.loads(report("json"))["events"] if event["kind"] == "held"]
        self.assertEqual([(event["cause"], event["source"], event["destination"], event["bytes"],
                           event["name"]) for event in held],
                         [("fault", 0, 1, 3 * 4096, memory), ("release", 1, -1, 2 * 4096, memory)])
        rows = csv.DictReader(io.StringIO(report("csv"), newline=""))
        self.assertEqual([row["cause"] for row in rows if row["kind"] == "held"],
                         ["fault", "release"])
        moments = [event for event in json.loads(report("chrome"))["traceEvents"]
                   if event["name"] == "held"]
        # In the row of the processor whose pool keeps the pages.
        self.assertEqual([(event["pid"], event["args"].get("from"), event["args"].get("to"))
                          for event in moments],
                         [(1, "host", "device 0"), (2, "device 0", None)])
        text = report("summary")
        lines = {line[:40].strip(): line[40:].split() for line in text.splitlines()}
        for name in ("held, fault", "held, release", "held, host -> device 0",
                     "held, device 0 -> none"):
            self.assertEqual(lines[name][0], "1", name)
        self.assertIn("\nHeld: 2 times pages could not move, 0.02 MiB in all, ", text)
        self.assertIn("wherryPinPages", text)

    def test_samples_say_so_in_every_report(self):
        self.assertFalse([event for event in self.events()
                          if event["kind"] == "fault" and event["cause"] != "none"])
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        trace = pathlib.Path(folder.name) / "coherent.trace"
        done = record(trace, cli_test.PROGRAM, "cg", "--poisson", "256", "--devices", "2",
                      environment={"WHERRY_DEVICES": COHERENT, "WHERRY_SAMPLING": "20"})
        self.assertEqual(done.returncode, 0, done.stderr)

        def report(form):
            return wherry("trace", trace, "--format", form).stdout

        table = json.loads(report("json"))
        self.assertEqual([processor["kind"] for processor in table["machine"]["processors"]],
                         ["host", "coherent", "coherent"])
        causes = collections.Counter(event["cause"] for event in table["events"]
                                     if event["kind"] == "fault")
        self.assertEqual(set(causes), {"none", "sample"})
        samples = causes["sample"]
        rows = csv.DictReader(io.StringIO(report("csv"), newline=""))
        self.assertEqual(sum((row["kind"], row["cause"]) == ("fault", "sample") for row in rows),
                         samples)
        slices = json.loads(report("chrome"))["traceEvents"]
        self.assertEqual(sum(event.get("cat", "").startswith("faults")
                             and event["args"].get("cause") == "sample" for event in slices),
                         samples)
        lines = {line[:40].strip(): line[40:].split()
                 for line in report("summary").splitlines()}
        self.assertEqual(int(lines["fault, sample"][0]), samples)
        self.assertEqual(int(lines["fault"][0]), causes["none"])

    def test_a_trace_that_breaks_off_is_reported_up_to_there(self):
        whole = self.trace.read_bytes()
        with tempfile.TemporaryDirectory() as folder:
            cut = pathlib.Path(folder) / "cut.trace"
            cut.write_bytes(whole[:len(whole) // 2])
            done = wherry("trace", cut)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("The trace breaks off", done.stdout)
            report = json.loads(wherry("trace", cut, "--format", "json").stdout)
            self.assertIs(report["complete"], False)

    def test_a_trace_that_was_changed_is_said_to_be_wrong_and_where(self):
        changed = bytearray(self.trace.read_bytes())
        changed[60] ^= 1
        with tempfile.TemporaryDirectory() as folder:
            wrong = pathlib.Path(folder) / "wrong.trace"
            wrong.write_bytes(changed)
            self.assert_complaint(wherry("trace", wrong), 1,
                                  "wrong.trace: at byte 12: the checksum")

    def test_the_file_is_as_its_format_is_documented(self):
        """Follows docs/trace-format.md for chunks and their first numbers."""
        data = self.trace.read_bytes()
        self.assertEqual(data[:8], b"WHERRYTR")
        self.assertEqual(struct.unpack_from("<I", data, 8), (1,))
        at, kinds = 12, []
        while at < len(data):
            kind, length, checksum = struct.unpack_from("<III", data, at)
            payload = data[at + 12:at + 12 + length]
            self.assertEqual(zlib.crc32(data[at:at + 8] + payload), checksum)
            kinds.append(kind)
            at += 12 + length
        self.assertEqual(at, len(data))
        self.assertEqual((kinds[0], kinds[-1]), (1, 5))
        self.assertLessEqual(set(kinds), {1, 2, 3, 4, 5, 6})
        self.assertEqual(kinds.index(6), 1)
        self.assertEqual(kinds.count(6), 1)


def heed_signals():
    """For a program that is started by nohup, or in the background of a script: a shell cannot trap
    signals that were ignored before."""
    for ignored in (signal.SIGHUP, signal.SIGINT):
        signal.signal(ignored, signal.SIG_DFL)


class Record(Case):
    def test_the_exit_code_is_the_program_s_as_shells_have_it(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "x.trace"
            for program, code in ((("sh", "-c", "exit 3"), 3),
                                  (("sh", "-c", "kill -9 $$"), 128 + 9), (("/nonexistent",), 127),
                                  (("/etc/passwd",), 126)):
                with self.subTest(program=program):
                    self.assert_complaint(record(trace, *program), code, program[0])
            self.assertFalse(trace.exists())

    def test_a_program_without_the_library_leaves_an_older_trace_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "old.trace"
            trace.write_text("old")
            self.assert_complaint(record(trace, "true"), 0, "no trace", "true")
            self.assertEqual(trace.read_text(), "old")

    def test_the_trace_lies_where_it_was_asked_for_wherever_the_program_goes(self):
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.abspath(cli_test.PROGRAM)
            clean = {name: value for name, value in os.environ.items()
                     if not name.startswith(("WHERRY_", "CUDA_"))}
            done = subprocess.run(
                [program, "record", "--", "sh", "-c", f"cd / && exec '{program}' cg --poisson 8"],
                cwd=folder, env=clean | DEVICE, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((pathlib.Path(folder) / "wherry.trace").exists())

    def test_the_name_may_have_the_process_and_the_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            pattern = f"{folder}/%%-%r-%p"
            done = record(pattern, cli_test.PROGRAM, "cg", "--poisson", "8",
                          environment=DEVICE | {"PMI_RANK": "3"})
            self.assertEqual(done.returncode, 0, done.stderr)
            name, = os.listdir(folder)
            self.assertRegex(name, r"^%-3-[0-9]+$")
            self.assertIn(f"the trace is in {folder}/{name}", done.stderr)

    def test_a_folder_with_a_percent_sign_is_no_pattern(self):
        with tempfile.TemporaryDirectory(suffix="-%h") as folder:
            clean = {name: value for name, value in os.environ.items()
                     if not name.startswith(("WHERRY_", "CUDA_"))}
            program = os.path.abspath(cli_test.PROGRAM)
            done = subprocess.run([program, "record", "--", program, "cg", "--poisson", "8"],
                                  cwd=folder, env=clean | DEVICE, capture_output=True, text=True,
                                  timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(folder), ["wherry.trace"])

    def test_a_trace_that_cannot_be_written_is_refused_before_the_program_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            ran = pathlib.Path(folder) / "ran"
            for file, words in (("/nonexistent/x.trace", "No such file"),
                                (folder, "Is a directory"), ("/dev/full", "it is no regular file"),
                                ("/etc/passwd/x", "Not a directory"),
                                (f"{folder}/%h", "'%h' is not %p (process)")):
                with self.subTest(file=file):
                    done = record(file, "touch", ran)
                    self.assert_complaint(done, 2, f"cannot write {file}: {words}",
                                          "touch was not run")
                    self.assertFalse(ran.exists())
            self.assertEqual(os.listdir(folder), [])

    def test_without_record_a_trace_that_cannot_be_written_does_not_stop_the_program(self):
        done = wherry("cg", "--poisson", "8",
                      environment=DEVICE | {"WHERRY_TRACE": "/nonexistent/x.trace"})
        self.assertEqual(done.returncode, 0)
        self.assertIn("iterations", done.stdout)
        self.assertIn("no trace /nonexistent/x.trace is written: No such file or directory",
                      done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def start(self, trace, *program):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("WHERRY_", "CUDA_"))}
        return subprocess.Popen([cli_test.PROGRAM, "record", "-o", trace, "--", *program],
                                env=clean | DEVICE, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=heed_signals)

    def test_signals_are_passed_on_and_the_program_s_answer_is_the_exit_code(self):
        script = ("trap 'exit 5' TERM; trap 'exit 6' INT; trap 'exit 7' HUP; echo ready; "
                  "while :; do sleep 0.01; done")
        with tempfile.TemporaryDirectory() as folder:
            for sent, code in ((signal.SIGTERM, 5), (signal.SIGINT, 6), (signal.SIGHUP, 7)):
                with self.subTest(signal=sent):
                    started = self.start(pathlib.Path(folder) / "x.trace", "sh", "-c", script)
                    self.assertEqual(started.stdout.readline(), "ready\n")
                    started.send_signal(sent)
                    out, err = started.communicate(timeout=60)
                    self.assertEqual((started.returncode, out), (code, ""), err)

    def test_a_program_that_a_signal_ended_leaves_a_trace_until_then(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "x.trace"
            program = os.path.abspath(cli_test.PROGRAM)
            started = self.start(trace, "sh", "-c",
                                 f"exec '{program}' cg --poisson 1000 --tolerance 1e-15")
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                if trace.exists() and trace.stat().st_size > 10_000:
                    break
                time.sleep(0.01)
            started.send_signal(signal.SIGTERM)
            _, err = started.communicate(timeout=60)
            self.assertEqual(started.returncode, 128 + signal.SIGTERM, err)
            self.assertIn("until the signal that ended sh", err)
            done = wherry("trace", trace)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("The trace breaks off", done.stdout)

    def test_a_full_disk_is_said_with_what_is_lost_and_the_exit_code_is_not_0(self):
        with tempfile.TemporaryDirectory() as folder:
            mount = ["unshare", "--mount", "sh", "-c",
                     'mount -t tmpfs -o size=8k none "$0" && exec "$@"', folder]
            if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
                self.skipTest("a small file system cannot be mounted here")
            trace = pathlib.Path(folder) / "x.trace"
            program = os.path.abspath(cli_test.PROGRAM)
            clean = {name: value for name, value in os.environ.items()
                     if not name.startswith(("WHERRY_", "CUDA_"))}
            for solver, code in (([program, "cg", "--poisson", "64"], 1),
                                 (["sh", "-c", f"'{program}' cg --poisson 64; exit 9"], 9)):
                done = subprocess.run([*mount, program, "record", "-o", trace, "--", *solver],
                                      env=clean | DEVICE, capture_output=True, text=True,
                                      timeout=60)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("iterations", done.stdout)
                self.assertIn(f"the trace {trace} ends early: No space left on device", done.stderr)
                self.assertIn("could not be written to its end, and the events after that are lost",
                              done.stderr)


class Refuse(Case):
    def test_what_is_no_trace(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "x.trace"
            for content, words in ((b"", "is not a Wherry trace"),
                                   (b"a,b\n1,2\n", "is not a Wherry trace"),
                                   (b"WHERRYTR", "breaks off"), (b"WHERRYTR\2\0\0\0", "version 2"),
                                   (b"WHERRYTR\1\0\0\0", "breaks off")):
                with self.subTest(content=content):
                    path.write_bytes(content)
                    for form in ("summary", "chrome", "csv", "json"):
                        self.assert_complaint(wherry("trace", path, "--format", form), 1,
                                              "x.trace: ", words)
            self.assert_complaint(wherry("trace", folder), 1, folder, "Is a directory")
        self.assert_complaint(wherry("trace", "/nonexistent.trace"), 1,
                              "/nonexistent.trace: No such file")

    def test_wrong_flags_with_one_line(self):
        for arguments in (["record"], ["record", "--"], ["record", "-o"],
                          ["record", "--nonsense", "--", "true"], ["trace"], ["trace", "a", "b"],
                          ["trace", "a", "--format", "xml"], ["trace", "--format", "csv"]):
            with self.subTest(arguments=arguments):
                self.assert_complaint(wherry(*arguments), 2)

    def test_help(self):
        for command in ("record", "trace"):
            done = wherry(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.strip())


if __name__ == "__main__":
    cli_test.main()
