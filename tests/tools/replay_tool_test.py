#!/usr/bin/env python3
"""The user interface of `wherry calibrate` and `wherry replay`: costs of this machine, recorded
runs under other policies, and messages on wrong input.

Usage: replay_tool_test.py PROGRAM
"""

import json
import math
import pathlib
import tempfile
import unittest

import cli_test
from cli_test import Case, wherry

TWO_SMALL = {"WHERRY_DEVICES": "capacity=32M,workers=1;capacity=32M,workers=1"}
OPERATIONS = ("populate_host", "populate_device", "migrate_to_host", "migrate_to_device",
              "duplicate", "remote_map")
NUMBERS = ("minor_ns", "collapse_ns", "evict_page_ns", "prefetch_page_ns", "round_trip_host_ns",
           "round_trip_device_ns",
           "read_local_page_ns", "read_remote_page_ns")


def costs(**changes):
    """A cost model in the format of docs/replay.md."""
    return {"version": 1} | {name: {"fixed_ns": 8000, "page_ns": 900} for name in OPERATIONS} | \
        {name: 2000 for name in NUMBERS} | changes


class Folder(Case):
    """Tests with files of their own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.costs = self.folder / "cost.json"
        self.costs.write_text(json.dumps(costs()))
        self.trace = self.folder / "x.trace"

    def record(self, *program, environment=TWO_SMALL):
        done = wherry("record", "-o", self.trace, "--", cli_test.PROGRAM, *program,
                      environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)

    def replay(self, *arguments):
        return self.good_json("replay", self.trace, "--cost", self.costs, *arguments)


class Predict(Folder):
    """Replays a run under the policy that it was recorded with: steps that happen as recorded take
    the
        recorded time, independent of this machine."""

    def assert_migrations_are_predicted(self, policy, *program, environment=TWO_SMALL,
                                        counts=("migrations", "migrated_pages",
                                                "remotely_mapped_pages")):
        self.record(*program, "--policy", policy, environment=environment)
        trap = json.loads(wherry("trace", self.trace, "--format", "json").stdout)["machine"]["trap"]
        if trap == "mprotect":
            self.skipTest("how much a touch brings along depends on what this trap has split "
                          "so far")
        report = self.replay("--policy", policy)
        recorded, predicted = report["recorded"], report["policies"][policy]
        for key in counts:
            self.assertLessEqual(abs(predicted[key] - recorded[key]), 0.1 * recorded[key] + 16,
                                 (key, report))
        self.assertGreater(predicted["of_recorded"], 0.75, report)
        self.assertLess(predicted["of_recorded"], 1.25, report)
        return recorded

    def test_pages_that_always_move(self):
        recorded = self.assert_migrations_are_predicted("migrate-always", "cg", "--poisson", 64,
                                                        "--devices", 2)
        self.assertGreater(recorded["migrated_pages"], 1000)

    def test_pages_that_stay(self):
        recorded = self.assert_migrations_are_predicted("first-touch", "cg", "--poisson", 64,
                                                        "--devices", 2)
        self.assertEqual(recorded["migrated_pages"], 0)
        self.assertGreater(recorded["remotely_mapped_pages"], 0)

    def test_advised_memory(self):
        self.assert_migrations_are_predicted("migrate-always", "cg", "--poisson", 64, "--devices",
                                             2, "--advise")

    def test_coherent_devices(self):
        environment = {"WHERRY_DEVICES": "kind=coherent,capacity=64M,workers=1;"
                                         "kind=coherent,capacity=64M,workers=1",
                       "WHERRY_SAMPLING": "20"}
        recorded = self.assert_migrations_are_predicted(
            "migrate-always", "cg", "--poisson", 256, "--devices", 2, environment=environment,
            counts=("faults", "samples", "migrations", "migrated_pages"))
        self.assertGreater(recorded["samples"], 0)
        self.assertIn("are samples", wherry("replay", self.trace, "--cost", self.costs).stdout)


class Replay(Folder):
    def setUp(self):
        super().setUp()
        self.record("cg", "--poisson", 32, "--devices", 1, "--policy", "migrate-always")

    def test_all_built_in_policies_by_default(self):
        report = self.replay()
        self.assertEqual(set(report["policies"]),
                         {policy["name"]
                          for policy in json.loads(wherry("policies", "--json").stdout)})
        self.assertGreater(report["policies"]["migrate-always"]["migrated_pages"], 0)
        self.assertEqual(report["policies"]["first-touch"]["migrated_pages"], 0)
        self.assertEqual(report["recorded"]["of_recorded"], 1)
        self.assertIs(report["complete"], True)
        for row in report["policies"].values():
            self.assertEqual(row["migrated_bytes"], 4096 * row["migrated_pages"])
            self.assertGreater(row["time_ns"], 0)
            self.assertTrue(math.isclose(row["of_recorded"],
                                         row["time_ns"] / report["recorded"]["time_ns"],
                                         rel_tol=1e-6))

    def test_policies_are_a_list_or_several(self):
        one = self.replay("--policy", "uvm,thrashing_nap=2,thrashing_enable=0,first-touch")
        self.assertEqual(list(one["policies"]),
                         ["uvm,thrashing_nap=2,thrashing_enable=0", "first-touch"])
        other = self.replay("--policy", "uvm,thrashing_nap=2,thrashing_enable=0", "--policy",
                            "first-touch")
        self.assertEqual(one, other)

    def test_the_same_every_time(self):
        one, other = (wherry("replay", self.trace, "--cost", self.costs, "--json")
                      for _ in range(2))
        self.assertEqual(one.stdout, other.stdout)

    def test_text_has_a_row_for_what_was_recorded_and_for_each_policy(self):
        done = wherry("replay", self.trace, "--cost", self.costs)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("cg --poisson 32 --devices 1 --policy migrate-always (process ", done.stdout)
        settings = self.replay()["recorded_settings"]
        self.assertIn(f"policy: {settings['policy']}", done.stdout)
        self.assertIn(f"Wherry {settings['version']}, Linux {settings['kernel']}", done.stdout)
        self.assertIn(f"  WHERRY_DEVICES={TWO_SMALL['WHERRY_DEVICES']}\n", done.stdout)
        rows = [line.split()[0] for line in done.stdout.splitlines() if line.split()]
        for name in ("recorded", "migrate-always", "first-touch", "remote-always", "uvm"):
            self.assertIn(name, rows)

    def test_a_recording_that_left_pages_mapped_cannot_judge_policies_that_move_them(self):
        def complaint_of(recorded, *policies):
            self.record("cg", "--poisson", 16, "--policy", recorded)
            done = wherry("replay", self.trace, "--cost", self.costs,
                          *(part for policy in policies for part in ("--policy", policy)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(f"recorded ({recorded})", done.stdout)
            return done.stderr

        self.assertEqual(complaint_of("first-touch", "uvm,thrashing_nap=2", "remote-always"),
                         "wherry: this was recorded under first-touch, which leaves pages mapped: "
                         "it has too few faults to judge uvm,thrashing_nap=2; record under "
                         "migrate-always\n")
        self.assertEqual(complaint_of("remote-always", "first-touch", "adaptive"), "")
        self.assertEqual(complaint_of("migrate-always", "uvm", "first-touch"), "")
        self.assertEqual(self.replay()["recorded_policy"], "migrate-always")

    def test_pages_pinned_for_thrashing_cannot_judge_policies_that_would_move_them(self):
        self.record("cg", "--poisson", 64, "--devices", 2, "--policy",
                    "uvm,thrashing_lapse_usec=100000,thrashing_pin=0,thrashing_threshold=1,"
                    "thrashing_pin_threshold=1")
        done = wherry("replay", self.trace, "--cost", self.costs, "--policy",
                      "migrate-always,first-touch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "^wherry: the recorded policy detected thrashing and pinned "
                         r"\d+ pages: .* of migrate-always are too low; record under "
                         "migrate-always\n$")

    def test_pages_that_came_along_cannot_judge_policies_that_bring_fewer(self):
        self.good_json("bench", "policies", "--workloads", "streaming", "--policies", "uvm",
                       "--rounds", 1, "--traces", self.folder, "--json")
        done = wherry("replay", self.folder / "streaming", "--cost", self.costs, "--policy",
                      "uvm,prefetch_enable=0,first-touch")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, "wherry: \\d+ of \\d+ pages moved along with .* of "
                         "uvm,prefetch_enable=0 are too low; record with WHERRY_FAULT_REGION=4K "
                         "under migrate-always\n$")

    def test_a_trace_of_an_earlier_version_does_not_say_its_policy(self):
        whole = self.trace.read_bytes()
        first = 12 + 12 + int.from_bytes(whole[16:20], "little")
        second = first + 12 + int.from_bytes(whole[first + 4:first + 8], "little")
        self.assertEqual(whole[first], 6)
        self.trace.write_bytes(whole[:first] + whole[second:])
        done = wherry("replay", self.trace, "--cost", self.costs)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("recorded ", done.stdout)
        self.assertNotIn("recorded (", done.stdout)
        self.assertIsNone(self.replay()["recorded_policy"])
        self.assertIn("events in", wherry("trace", self.trace).stdout)

    def test_smaller_devices_evict(self):
        # The most complete recording: see docs/replay.md.
        self.record("bench", "oversubscribe", "--rounds", "1", "--policy", "migrate-always",
                    environment={"WHERRY_DEVICES": "capacity=8M,workers=1"})
        few, many = (self.replay("--policy", "migrate-always",
                                 *capacity)["policies"]["migrate-always"]["evictions"]
                     for capacity in (["--capacity", "1G"], ["--capacity", "4M"]))
        self.assertEqual(few, 0)
        self.assertGreater(many, 0)

    def test_a_trace_that_breaks_off_counts_up_to_there(self):
        whole = self.trace.read_bytes()
        self.trace.write_bytes(whole[:len(whole) * 3 // 4])
        self.assertIs(self.replay()["complete"], False)
        done = wherry("replay", self.trace, "--cost", self.costs)
        self.assertIn("breaks off", done.stdout)

    def test_costs_that_make_no_sense(self):
        for changes, words in (({"minor_ns": -1}, "'minor_ns' is -1"),
                               ({"duplicate": 3}, "'duplicate' is not an object"),
                               ({"version": 9}, "version is 9"),
                               ({"collapse_ns": "much"}, "'collapse_ns' is not a number")):
            with self.subTest(changes=changes):
                self.costs.write_text(json.dumps(costs(**changes)))
                self.assert_complaint(wherry("replay", self.trace, "--cost", self.costs), 1,
                                      str(self.costs), words,
                                      "wherry calibrate")
        for name in (*OPERATIONS, *NUMBERS):
            lacking = costs()
            del lacking[name]
            self.costs.write_text(json.dumps(lacking))
            self.assert_complaint(wherry("replay", self.trace, "--cost", self.costs), 1,
                                  f"'{name}' is missing")
        self.costs.write_text("costs")
        self.assert_complaint(wherry("replay", self.trace, "--cost", self.costs), 1, "not JSON")

    def test_what_is_not_there(self):
        nowhere = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        self.assert_complaint(wherry("replay", self.trace, environment=nowhere), 1,
                              "cache/wherry/cost.json", "wherry calibrate")
        self.assert_complaint(wherry("replay", "/nonexistent.trace", "--cost", self.costs), 1,
                              "/nonexistent.trace: No such file")
        self.assert_complaint(wherry("replay", self.costs, "--cost", self.costs), 1,
                              "is not a Wherry trace")
        self.assert_complaint(wherry("replay", "/dev/zero", "--cost", self.costs), 1,
                              "is not a Wherry trace")
        self.assert_complaint(wherry("replay", self.trace, "--cost", self.costs, "--policy",
                                     "./nonexistent.so,4"), 1,
                              "cannot load a policy")


class Calibrate(Folder):
    def test_costs_are_measured_and_kept_where_a_replay_finds_them(self):
        cache = {"XDG_CACHE_HOME": str(self.folder / "cache")}
        report = self.good_json("calibrate", environment=cache)
        kept = self.folder / "cache/wherry/cost.json"
        self.assertEqual(json.loads(kept.read_text()), report)
        self.assertEqual([entry.name for entry in kept.parent.iterdir()], ["cost.json"])
        self.assertEqual(report["version"], 1)
        for name in OPERATIONS:
            self.assertGreater(report[name]["fixed_ns"] + report[name]["page_ns"], 0, name)
        for name in NUMBERS:
            self.assertGreaterEqual(report[name], 0, name)
        self.record("cg", "--poisson", 16, "--policy", "migrate-always")
        done = wherry("replay", self.trace, environment=cache)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

        named = self.folder / "named.json"
        done = wherry("calibrate", "-o", named)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(str(named), done.stdout)
        self.assertEqual(set(json.loads(named.read_text())), set(report))

    def test_a_place_that_cannot_be_written(self):
        blocked = self.folder / "file"
        blocked.write_text("")
        self.assert_complaint(wherry("calibrate", "-o", blocked / "cost.json"), 2, "cannot write")
        self.assert_complaint(wherry("calibrate", "-o", self.folder / "missing/cost.json"), 2,
                              "cannot write", "No such file")
        self.assertFalse((self.folder / "missing").exists())


if __name__ == "__main__":
    cli_test.main()
