#!/usr/bin/env python3
"""The user interface of the `wherry` program: its output and its exit codes.

Usage: cli_test.py PROGRAM
With WHERRY_TEST_SCALE below 1 solutions are less exact, and only some of the questions of `bench
all` are asked.
"""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from defects import noticed  # noqa: E402
from length import IS_SHORT, some_of  # noqa: E402

SKIPPED = 77
PROGRAM = ""
TOLERANCE = 0.1 if IS_SHORT else 1e-8  # of solutions that take long
CACHE = tempfile.TemporaryDirectory()  # files that the program keeps between runs
TWO_DEVICES = {"WHERRY_DEVICES": "capacity=64M;capacity=64M"}


def wherry(*arguments, environment=None, timeout=120):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("WHERRY_", "CUDA_"))}
    return noticed(subprocess.run(
        [PROGRAM, *map(str, arguments)],
        env=clean | {"XDG_CACHE_HOME": CACHE.name} | (environment or {}), capture_output=True,
        text=True, timeout=timeout, stdin=subprocess.DEVNULL))


def spd_file(folder, rows, symmetric, seed):
    """A random diagonally dominant matrix: symmetric positive definite."""
    generator = random.Random(seed)
    sums = [1.0] * rows
    entries = {}
    for row in range(1, rows):
        for column in {generator.randrange(row) for _ in range(4)}:
            value = generator.uniform(-1, 1)
            entries[row, column] = value
            sums[row] += abs(value)
            sums[column] += abs(value)
    for row in range(rows):
        entries[row, row] = sums[row]
    if not symmetric:
        entries |= {(column, row): value for (row, column), value in entries.items()}
    path = pathlib.Path(folder) / f"{'symmetric' if symmetric else 'general'}.mtx"
    kind = "symmetric" if symmetric else "general"
    lines = [f"%%MatrixMarket matrix coordinate real {kind}", f"{rows} {rows} {len(entries)}"]
    lines += [f"{row + 1} {column + 1} {value!r}"
              for (row, column), value in sorted(entries.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


class Case(unittest.TestCase):
    def good_json(self, *arguments, environment=None):
        done = wherry(*arguments, "--json", environment=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)

    def assert_complaint(self, done, code, *words):
        """Checks that there is one line on stderr with these words, and nothing on stdout."""
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("wherry: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)


class Solve(Case):
    def test_json_is_one_object_with_the_documented_keys(self):
        report = self.good_json("cg", "--poisson", 64, "--devices", 2, environment=TWO_DEVICES)
        for key in ("iterations", "relative_residual", "faults", "migrations", "migrated_bytes",
                    "phases", "advised",
                    "duplicated_bytes", "after_first_iteration"):
            self.assertIn(key, report)
        self.assertEqual(report["rows"], 64 * 64)
        self.assertGreater(report["iterations"], 0)
        self.assertLessEqual(report["relative_residual"], 1e-8 * 1.001)
        self.assertIs(report["equals_ordinary_memory"], True)
        self.assertEqual([phase["name"] for phase in report["phases"]],
                         ["assemble", "exchange", "multiply", "vectors", "check"])

    def test_pages_move_to_the_devices_and_back_in_every_iteration(self):
        report = self.good_json("cg", "--poisson", 64, "--devices", 1, environment=TWO_DEVICES)
        self.assertGreater(report["faults"], report["iterations"])
        self.assertGreater(report["migrations"], report["iterations"])
        self.assertEqual(report["migrated_bytes"], 4096 * report["migrations"])
        phases = {phase["name"]: phase["processors"] for phase in report["phases"]}
        self.assertGreaterEqual(phases["multiply"][1]["migrations"], 2 * report["iterations"])
        self.assertGreaterEqual(phases["exchange"][0]["migrations"], 2 * report["iterations"] - 2)
        self.assertEqual(phases["multiply"][2]["faults"], 0)  # the second device has no work

    def test_devices_do_not_take_pages_from_each_other(self):
        four = {"WHERRY_DEVICES": ";".join(["capacity=64M"] * 4)}
        report = self.good_json("cg", "--poisson", 32, "--devices", 4, environment=four)
        for device in range(4):
            rows = {row["arrays"]: row for row in report["placements"]}
            resident = rows[f"A of device {device}"]["resident"]
            self.assertEqual(resident[1 + device], rows[f"A of device {device}"]["pages"])
            self.assertEqual(sum(resident), resident[1 + device])
        # Each share's p and q fit into one region: four moves of at most 16 pages per iteration and
        # device.
        self.assertLess(report["migrations"], 4 * 4 * 16 * (report["iterations"] + 4))

    def test_the_matrix_ends_up_on_the_devices_and_the_vectors_on_the_host(self):
        report = self.good_json("cg", "--poisson", 64, "--devices", 2, environment=TWO_DEVICES)
        rows = {row["arrays"]: row for row in report["placements"]}
        for device in (0, 1):
            self.assertGreater(rows[f"A of device {device}"]["resident"][1 + device], 0)
            self.assertEqual(rows[f"A of device {device}"]["resident"][0], 0)
        self.assertEqual(rows["vectors"]["resident"], [rows["vectors"]["pages"], 0, 0])

    def test_phases_add_up_to_the_totals(self):
        report = self.good_json("cg", "--poisson", 48, environment=TWO_DEVICES)
        for key in ("faults", "migrations", "migrated_bytes", "duplicated_bytes"):
            self.assertEqual(report[key], sum(phase[key] for phase in report["phases"]))
            self.assertEqual(report[key], sum(processor[key] for phase in report["phases"]
                                              for processor in phase["processors"]))

    def test_the_number_of_devices_does_not_change_the_result(self):
        three = {"WHERRY_DEVICES": "capacity=64M;capacity=64M;capacity=64M"}
        reports = [self.good_json("cg", "--poisson", 40, "--devices", count, environment=three)
                   for count in (1, 2, 3)]
        self.assertEqual(len({(report["iterations"], report["relative_residual"])
                              for report in reports}), 1)

    def test_more_devices_than_rows_are_no_problem(self):
        report = self.good_json("cg", "--poisson", 1, environment=TWO_DEVICES)
        self.assertEqual((report["rows"], report["devices"], report["iterations"]), (1, 2, 1))

    def test_a_pool_smaller_than_the_matrix_is_enough(self):
        report = self.good_json("cg", "--poisson", 200, "--tolerance", TOLERANCE,
                                environment={"WHERRY_DEVICES": "capacity=2M"})
        self.assertLessEqual(report["relative_residual"], TOLERANCE * 1.001)
        self.assertGreater(sum(phase["evicted"] for phase in report["phases"]), 0)

    def test_files_of_both_symmetries_give_the_same_solution(self):
        with tempfile.TemporaryDirectory() as folder:
            reports = [self.good_json("cg", "--matrix", spd_file(folder, 300, symmetric, seed=7),
                                      environment=TWO_DEVICES) for symmetric in (True, False)]
        self.assertEqual(reports[0]["rows"], 300)
        self.assertEqual(reports[0]["iterations"], reports[1]["iterations"])
        self.assertEqual(reports[0]["relative_residual"], reports[1]["relative_residual"])

    def test_the_tolerance_is_reached(self):
        loose, tight = (self.good_json("cg", "--poisson", 32, "--tolerance", tolerance)
                        for tolerance in ("1e-3", "1e-11"))
        self.assertLess(loose["iterations"], tight["iterations"])
        self.assertGreater(loose["relative_residual"], tight["relative_residual"])
        self.assertLessEqual(tight["relative_residual"], 1e-11 * 1.001)

    def test_advice_changes_what_moves_and_not_the_result(self):
        with tempfile.TemporaryDirectory() as folder:
            problems = [("--matrix", spd_file(folder, 3000, True, seed=11)), ("--poisson", 64)]
            for problem in problems:
                for devices in (1, 2):
                    with self.subTest(problem=problem[0], devices=devices):
                        plain, advised = (self.good_json("cg", *problem, "--devices", devices,
                                                         *flag, environment=TWO_DEVICES)
                                          for flag in ([], ["--advise"]))
                        self.assertEqual((plain["advised"], advised["advised"]), (False, True))
                        for key in ("iterations", "relative_residual", "equals_ordinary_memory"):
                            self.assertEqual(plain[key], advised[key])
                        self.assertGreater(plain["after_first_iteration"]["migrated_bytes"], 0)
                        self.assertEqual(plain["duplicated_bytes"], 0)
                        self.assertLess(advised["faults"], plain["faults"])
                        self.assertLess(advised["migrated_bytes"] + advised["duplicated_bytes"],
                                        plain["migrated_bytes"])

    def test_the_advised_matrix_is_copied_once_and_nothing_moves_after_the_first_iteration(self):
        with tempfile.TemporaryDirectory() as folder:
            report = self.good_json("cg", "--matrix", spd_file(folder, 3000, False, seed=12),
                                    "--advise",
                                    environment=TWO_DEVICES)
        self.assertGreater(report["iterations"], 1)
        later = report["after_first_iteration"]
        for key in ("populated", "migrations", "migrated_bytes", "duplicated", "duplicated_bytes",
                    "bytes_copied",
                    "evicted", "collapsed"):
            self.assertEqual(later[key], 0, key)
        rows = {row["arrays"]: row for row in report["placements"]}
        matrix_pages = 0
        for device in (0, 1):
            matrix = rows[f"A of device {device}"]
            matrix_pages += matrix["pages"]
            self.assertEqual((matrix["resident"][0], matrix["resident"][1 + device]),
                             (matrix["pages"], matrix["pages"]))
            self.assertEqual(matrix["resident"][2 - device], 0)
            for vector in ("p", "q"):  # they were created on the device and never left it
                row = rows[f"{vector} of device {device}"]
                self.assertEqual((row["resident"][1 + device], sum(row["resident"])),
                                 (row["pages"], row["pages"]))
        self.assertEqual(report["duplicated_bytes"], 4096 * matrix_pages)
        self.assertEqual(report["migrated_bytes"], 0)

    def test_advice_with_a_pool_smaller_than_the_matrix_gives_the_same_result(self):
        plain, advised = (self.good_json("cg", "--poisson", 160, "--tolerance", TOLERANCE, *flag,
                                         environment={"WHERRY_DEVICES": "capacity=2M"})
                          for flag in ([], ["--advise"]))
        self.assertEqual((plain["iterations"], plain["relative_residual"]),
                         (advised["iterations"], advised["relative_residual"]))
        self.assertGreater(advised["duplicated_bytes"], 0)

    def test_the_table_says_what_moved_why_and_how_long_it_took(self):
        done = wherry("cg", "--poisson", 32, environment=TWO_DEVICES)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("iterations", "|b - Ax| / |b|", "phase", "pages moved", "pages copied",
                     "After the first iteration",
                     "because it", "handling", "device 1"):
            self.assertIn(word, done.stdout)


class Bench(Case):
    FIGURES = {"memcpy", "prefetch_to_device", "prefetch_to_host", "call", "touch_by_device",
               "touch_by_host",
               "prefetch_untouched", "compute_alone", "copy_alone", "overlapped", "fault_idle"}

    def test_prefetch_is_measured_beside_a_copy_and_beside_faults(self):
        report = self.good_json("bench", "prefetch", "--bytes", "16M", environment=TWO_DEVICES)
        rows = {row["key"]: row for row in report["rows"]}
        self.assertLessEqual(self.FIGURES, set(rows))
        for key in ("prefetch_to_device", "prefetch_to_host"):
            self.assertEqual(rows[key]["bytes"], 16 << 20)
            self.assertEqual(rows[key]["against"], "memcpy")
            self.assertAlmostEqual(rows[key]["ratio"],
                                   rows["memcpy"]["seconds"] / rows[key]["seconds"], places=3)
        self.assertGreater(rows["fault_idle"]["p50_us"], 0)

    def test_prefetch_prints_a_table(self):
        done = wherry("bench", "prefetch", "--bytes", "16M", "--device", 1, environment=TWO_DEVICES)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("prefetch of 16 MiB between the host and device 1", done.stdout)
        self.assertIn("memcpy of resident memory", done.stdout)

    GROUPS = ("first_touch", "fault_latency", "read_mostly", "collapse", "remote_mapping",
              "dense_first_touch", "threads", "sweeps", "prefetches", "evictions", "resident",
              "launches", "api_calls", "starting", "freeing")
    KEYS = {"first_touch_p50", "device_first_touch", "host_fault_latency", "device_fault_latency",
            "ping_pong", "ping_pong_contended", "read_mostly_first_read", "write_collapse",
            "remote_map", "first_touch_sweep", "threads_first_touch", "threads_take_pages",
            "sweep_to_host", "sweep_to_device", "prefetch_to_device", "prefetch_to_host", "evict",
            "resident_random_host", "resident_triad_host", "resident_random_device",
            "resident_triad_device", "launch_sync", "prefetch_nothing", "api_pointer_attribute",
            "api_event_query", "api_advise", "startup", "allocate_100G", "teardown"}

    def assert_answer(self, answer):
        self.assertNotIn("error", answer)
        self.assertIn(answer["better"], ("less", "more"))
        self.assertTrue(answer["question"] and answer["unit"])
        self.assertGreater(answer["value"], 0)
        for baseline in ("limit", "peer"):
            if baseline in answer:
                self.assertTrue(answer[baseline]["name"])
                self.assertGreater(answer[baseline]["value"], 0)
        if "limit" in answer:
            self.assertAlmostEqual(answer["ratio"], answer["value"] / answer["limit"]["value"])

    def test_questions_are_answered_by_key(self):
        report = self.good_json("bench", "all", "--bytes", "16M", "--only", "api_event_query",
                                "launch_sync")
        self.assertEqual([answer["key"] for answer in report["answers"]],
                         ["launch_sync", "api_event_query"])
        self.assertEqual(report["bytes"], 16 << 20)
        self.assertLessEqual({"cpu", "cpus", "memory_mib", "nodes", "kernel"},
                             set(report["machine"]))
        for answer in report["answers"]:
            self.assert_answer(answer)

    def test_every_question_is_answered(self):
        # The policies take as long as everything else together.
        groups = [*self.GROUPS, "policies"]
        if IS_SHORT:
            groups = some_of(self.GROUPS, "groups", below_full=1 / 3)
        keys = set()
        for group in groups:
            with self.subTest(group=group):
                report = self.good_json("bench", "all", "--bytes", "16M", "--only", group)
                self.assertTrue(report["answers"])
                for answer in report["answers"]:
                    keys.add(answer["key"])
                    self.assert_answer(answer)
        if not IS_SHORT:
            self.assertLessEqual(self.KEYS, keys)

    def test_answers_are_one_line_each(self):
        done = wherry("bench", "all", "--bytes", "16M", "--only", "api_calls")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        lines = [line for line in done.stdout.splitlines() if "cuEventQuery" in line]
        self.assertEqual(len(lines), 1)
        self.assertIn("a system call that does nothing", lines[0])

    def test_unknown_questions_are_refused_with_the_known_ones(self):
        self.assert_complaint(wherry("bench", "all", "--only", "launch_sync", "speed"), 2,
                              "'speed'", "launch_sync", "first_touch_p50", "policies")

    def test_what_cannot_be_measured_is_said_in_one_line(self):
        for arguments, code, word in (
                (("bench",), 2, "subcommand"),
                (("bench", "prefetch", "--bytes", "1K"), 2, "--bytes"),
                (("bench", "prefetch", "--bytes", "much"), 2, "--bytes"),
                (("bench", "prefetch", "--device", "9"), 2, "--device"),
                (("bench", "prefetch", "--device", "2"), 1, "--device 2"),
                (("bench", "prefetch", "--bytes", "65M"), 1, "device 0 holds only")):
            with self.subTest(arguments=arguments):
                self.assert_complaint(wherry(*arguments, environment=TWO_DEVICES), code, word)


class Refuse(Case):
    def file_complaint(self, text, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "bad.mtx"
            path.write_text(text)
            self.assert_complaint(wherry("cg", "--matrix", path, "--json"), 1, *words)

    def test_malformed_files_with_line_and_reason(self):
        head = "%%MatrixMarket matrix coordinate real general\n"
        self.file_complaint("", "bad.mtx:1: the file is empty")
        self.file_complaint(head + "2 2 2\n1 1 1\n2 3 1\n", "bad.mtx:4: column '3'")
        self.file_complaint(head + "2 2 2\n1 1 1\n", "bad.mtx:4: the file ends")
        self.file_complaint(head + "2 3 6\n", "bad.mtx:2: the matrix is 2 x 3, not square")
        self.file_complaint("%%MatrixMarket matrix array real general\n",
                            "bad.mtx:1: format 'array'")

    def test_a_file_that_is_not_there(self):
        self.assert_complaint(wherry("cg", "--matrix", "/nonexistent.mtx"), 1,
                              "/nonexistent.mtx: No such file or directory")

    def test_matrices_that_cg_cannot_solve(self):
        head = "%%MatrixMarket matrix coordinate real symmetric\n"
        self.file_complaint(head + "2 2 2\n1 1 1\n2 2 -1\n", "row 2 has no positive diagonal entry")
        self.file_complaint(head + "2 2 3\n1 1 1\n2 1 -4\n2 2 1\n",
                            "not symmetric positive definite")

    def test_a_tolerance_out_of_reach(self):
        self.assert_complaint(wherry("cg", "--poisson", 24, "--tolerance", "1e-17"), 1,
                              "no convergence")

    def test_more_devices_than_there_are(self):
        self.assert_complaint(wherry("cg", "--devices", 3, environment=TWO_DEVICES), 1,
                              "--devices 3", "there are only 2")

    def test_wrong_flags_with_one_line(self):
        for arguments in ([], ["nonsense"], ["cg", "--nonsense"], ["cg", "--devices", "0"],
                          ["cg", "--devices", "9"], ["cg", "--poisson", "0"],
                          ["cg", "--poisson", "-3"], ["cg", "--poisson", "many"],
                          ["cg", "--tolerance", "0"], ["cg", "--tolerance", "-1"],
                          ["cg", "--tolerance", "nan"], ["cg", "--tolerance", "2"],
                          ["cg", "--matrix"], ["cg", "extra"], ["info", "--poisson", "3"],
                          ["cg", "--matrix", "a.mtx", "--poisson", "3"],
                          ["cg", "--policy"], ["cg", "--policy", "best"],
                          ["cg", "--policy", "uvm,thrashing_nap=0"],
                          ["bench", "prefetch", "--policy", "uvm,naps=1"], ["policies", "uvm"],
                          ["bench"], ["bench", "nonsense"], ["bench", "all", "--bytes", "1M"],
                          ["bench", "all", "--only"], ["bench", "all", "extra"],
                          ["bench", "oversubscribe", "--rounds", "0"],
                          ["bench", "oversubscribe", "--rounds", "many"],
                          ["bench", "oversubscribe", "--seed", "-1"],
                          ["bench", "oversubscribe", "extra"],
                          ["bench", "policies", "--rounds", "0"], ["bench", "policies", "extra"],
                          ["replay"], ["replay", "a", "b"], ["replay", "a", "--policy"],
                          ["replay", "a", "--policy", "best"],
                          ["replay", "a", "--policy", "uvm,best"],
                          ["replay", "a", "--policy", "uvm,naps=1"],
                          ["replay", "a", "--policy", "uvm,"],
                          ["replay", "a", "--capacity", "much"], ["replay", "a", "--capacity", "0"],
                          ["replay", "a", "--cost"], ["calibrate", "extra"],
                          ["calibrate", "-o"]):
            with self.subTest(arguments=arguments):
                self.assert_complaint(wherry(*arguments), 2)

    def test_oversubscribed_devices_are_measured_beside_other_replacements(self):
        report = self.good_json("bench", "oversubscribe", "--rounds", 2, "--seed", 5,
                                environment={"WHERRY_DEVICES": "capacity=8M,workers=1"})
        self.assertEqual((report["capacity_bytes"], report["rounds"], report["seed"]),
                         (8 << 20, 2, 5))
        self.assertGreater(report["prefetch_bytes_per_second"], 0)
        self.assertEqual({(row["order"], row["size_in_capacities"]) for row in report["rows"]},
                         {(order, size) for order in ("sweep", "random", "zipf")
                          for size in (1.25, 2, 4)})
        for row in report["rows"]:
            with self.subTest(row=row):
                self.assertLess(row["hit_rate"], 1)
                # The optimum is over all accesses, warm-up included.
                self.assertLessEqual(row["hit_rate_lru"], row["hit_rate_optimum"])
                self.assertLessEqual(row["hit_rate_random"], row["hit_rate_optimum"])
                self.assertGreater(row["evictions"], 0)
                self.assertGreater(row["bytes_per_second"], 0)
                if row["order"] == "sweep":
                    self.assertEqual(row["hit_rate_lru"], 0)
        text = wherry("bench", "oversubscribe", "--rounds", 1,
                      environment={"WHERRY_DEVICES": "capacity=4M"})
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertEqual(sum(line.startswith(("sweep", "random", "zipf"))
                             for line in text.stdout.splitlines()), 9)

    def test_every_policy_solves_the_same(self):
        names = [policy["name"] for policy in self.good_json("policies")]
        self.assertIn("uvm", names)
        for name in names:
            with self.subTest(policy=name):
                report = self.good_json("cg", "--poisson", 48, "--devices", 2, "--policy", name,
                                        environment=TWO_DEVICES)
                self.assertIs(report["equals_ordinary_memory"], True)
                # The option takes precedence over the environment.
                same = self.good_json("cg", "--poisson", 48, "--policy", name,
                                      environment=TWO_DEVICES | {"WHERRY_POLICY": "remote-always"})
                if name != "adaptive":  # adaptive depends on the machine
                    self.assertEqual(same["migrated_bytes"] == 0,
                                     name in ("remote-always", "first-touch"))

    def test_policies_are_compared_on_workloads(self):
        # Faults by SIGSEGV make read-shared take a minute.
        workloads = ["stencil"] if IS_SHORT else ["read-shared", "stencil"]
        report = self.good_json("bench", "policies", "--rounds", 1, "--workloads", *workloads,
                                "--policies", "migrate-always", "first-touch",
                                "uvm,prefetch_enable=0")
        self.assertEqual([row["workload"] for row in report["rows"]], workloads)
        for row in report["rows"]:
            with self.subTest(workload=row["workload"]):
                self.assertEqual(list(row["policies"]),
                                 ["migrate-always", "first-touch", "uvm,prefetch_enable=0"])
                self.assertEqual(min(result["of_best"] for result in row["policies"].values()), 1)
                self.assertEqual(row["policies"]["first-touch"]["migrated_pages"], 0)
                self.assertGreater(row["policies"]["migrate-always"]["migrated_pages"], 0)
                self.assertGreater(row["oracle"]["seconds"], 0)
                self.assertGreater(row["oracle"]["best_of_oracle"], 0)
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder) / "policies.svg"
            text = wherry("bench", "policies", "--rounds", 1, "--workloads", "false-sharing",
                          "--policies", "first-touch", "--svg", plot)
            self.assertEqual((text.returncode, text.stderr), (0, ""))
            self.assertIn("false-sharing", plot.read_text())
        self.assertIn("1.00", text.stdout)
        self.assertIn("oracle", text.stdout)
        self.assert_complaint(wherry("bench", "policies", "--svg", "/dev/null"), 2,
                              "cannot write /dev/null: it is no regular file")
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        self.assert_complaint(wherry("bench", "policies", "--workloads", "chess"), 2, "chess",
                              "ping-pong")
        self.assert_complaint(wherry("bench", "policies", "--policies", "best"), 2, "best", "uvm")
        self.assert_complaint(wherry("bench", "policies", "--workloads", "stencil", "--policies",
                                     "uvm", environment={"WHERRY_DEVICES": "capacity=8M"}), 1,
                              "2 devices")

    def test_nodes_are_compared_by_each_method(self):
        report = self.good_json("bench", "numa", "--bytes", "4M", "--from", 0, "--to", 0)
        self.assertEqual((report["bytes"], report["page"]), (4 << 20, "4K"))
        self.assertEqual([(row["from"], row["to"], row["distance"], row["method"])
                          for row in report["rows"]],
                         [(0, 0, 10, "fault"), (0, 0, 10, "prefetch")])
        self.assertEqual([(row["from"], row["to"], row["method"]) for row in report["absent"]],
                         [(0, 0, "move_pages")])
        self.assertIn("the node that it is on", report["absent"][0]["reason"])
        for row in report["rows"]:
            self.assertGreater(row["latency_us"], 0)
            self.assertGreater(row["bytes_per_second"], 0)
        text = wherry("bench", "numa", "--bytes", "4M", "--page", "2M", "--method", "prefetch",
                      "--from", 0, "--to", 0)
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        self.assertIn("prefetch", text.stdout)
        absent = wherry("bench", "numa", "--method", "move_pages", "--from", 0, "--to", 0)
        self.assertEqual((absent.returncode, absent.stderr), (0, ""))
        self.assertRegex(absent.stdout, "from +to +distance +method +one page, us +all, GiB/s")
        self.assertRegex(absent.stdout, "0 +0 +10 +move_pages +absent: .*the node that it is on")
        self.assert_complaint(wherry("bench", "numa", "--from", 63), 1,
                              "node 63 has no memory", "nodes with memory: 0")
        for wrong in (["--bytes", "3M"], ["--bytes", "0"], ["--page", "1G"], ["--method", "rsync"],
                      ["--from", "-1"]):
            with self.subTest(arguments=wrong):
                self.assert_complaint(wherry("bench", "numa", *wrong), 2)

    def test_programs_that_are_not_installed_are_named_with_their_packages(self):
        nowhere = {"PATH": "/nonexistent"}
        done = wherry("bench", "programs", "--only", "l*", "--only", "hpcc", environment=nowhere)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("apt-get install lammps", done.stdout)
        self.assertIn("apt-get install hpcc openmpi-bin", done.stdout)
        listed = wherry("bench", "programs", "--list", "--json", environment=nowhere)
        rows = json.loads(listed.stdout)
        self.assertIn("xz", [row["program"] for row in rows])
        for row in rows:
            self.assertTrue(row["meaning"] and row["packages"])
            self.assertEqual(row["installed"], row["program"] == "numpy" and row["installed"])
        self.assert_complaint(wherry("bench", "programs", "--only", "chess"), 2, "chess", "lammps")
        for wrong in (["--rounds", "0"], ["--sample", "60"], ["extra"]):
            self.assert_complaint(wherry("bench", "programs", *wrong), 2)

    def test_policies_are_listed_with_their_parameters(self):
        policies = self.good_json("policies")
        text = wherry("policies")
        self.assertEqual((text.returncode, text.stderr), (0, ""))
        for policy in policies:
            self.assertIn(policy["name"], text.stdout)
            self.assertTrue(policy["meaning"])
            for parameter in policy["parameters"]:
                self.assertIn(parameter["name"], text.stdout)
                self.assertLessEqual(parameter["min"], parameter["default"])
                self.assertLessEqual(parameter["default"], parameter["max"])
        self.assert_complaint(wherry("cg", "--policy", "best"), 2, "best", "first-touch", "uvm")
        done = wherry("cg", "--poisson", 8, environment={"WHERRY_POLICY": "uvm,naps=1"})
        self.assertEqual(done.returncode, 1)
        self.assertIn("thrashing_nap", done.stderr)

    def test_output_that_cannot_be_written(self):
        for arguments in (["cg", "--poisson", "8"], ["info"], ["info", "--json"], ["policies"],
                          ["policies", "--json"],
                          ["--help"], ["--version"], ["bench", "--help"]):
            with self.subTest(arguments=arguments), open("/dev/full", "w") as full:
                done = subprocess.run([PROGRAM, *arguments], stdout=full, stderr=subprocess.PIPE,
                                      text=True, timeout=60)
                self.assertEqual(done.returncode, 1)
                self.assertIn("cannot write: No space left on device", done.stderr)

    def test_an_unknown_command_is_refused_with_the_known_ones(self):
        self.assert_complaint(wherry("foo"), 2, "no command 'wherry foo' (commands: info, ")
        self.assert_complaint(wherry("reply"), 2, "'wherry reply'; did you mean 'replay'?",
                              "(commands: ", "trace")
        self.assert_complaint(wherry("bench", "polices"), 2, "did you mean 'policies'?",
                              "there is no command 'wherry bench polices'", "oversubscribe")
        self.assert_complaint(wherry("info", "--jsn"), 2, "--jsn", "wherry --help")

    def test_a_misspelt_variable_gets_one_line(self):
        done = wherry("policies", environment={"WHERRY_TRAPS": "mprotect"})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr,
                         "wherry: WHERRY_TRAPS is not a setting of Wherry: "
                         "did you mean WHERRY_TRAP?\n")


class Info(Case):
    def test_json_describes_kernel_nodes_devices_pools_and_limits(self):
        info = self.good_json("info", environment=TWO_DEVICES)
        self.assertIsNone(info["error"])
        self.assertEqual(info["kernel"]["release"], os.uname().release)
        for row in info["kernel"]["capabilities"]:
            self.assertTrue(row["name"] and row["what_for"])
            self.assertEqual(row["available"], row["how_to_enable"] == "")
        self.assertEqual([device["capacity"] for device in info["devices"]], [64 << 20] * 2)
        first, second = (device["uuid"] for device in info["devices"])
        self.assertRegex(first, r"^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
        seen = self.good_json("info",
                              environment=TWO_DEVICES | {"CUDA_VISIBLE_DEVICES": second[:8]})
        self.assertEqual([device["uuid"] for device in seen["devices"]], [second])
        self.assertEqual([pool["name"] for pool in info["pools"]],
                         ["wherry-pool-host", "wherry-pool-dev0", "wherry-pool-dev1"])
        self.assertEqual([pool["capacity"] for pool in info["pools"]], [None, 64 << 20, 64 << 20])
        self.assertEqual(len(info["nodes"]),
                         len(list(pathlib.Path("/sys/devices/system/node").glob("node[0-9]*")))
                         or 1)
        with open("/proc/sys/vm/max_map_count") as limit:
            self.assertEqual(info["limits"]["max_map_count"], int(limit.read()))
        self.assertGreater(info["limits"]["mappings"], 10)

    def test_text_shows_every_part(self):
        done = wherry("info", environment=TWO_DEVICES)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for word in ("Kernel", "userfaultfd", "Nodes", "Devices", "Pools", "wherry-pool-dev1",
                     "vm.max_map_count"):
            self.assertIn(word, done.stdout)

    def test_a_pool_of_several_files_is_one_line(self):
        done = wherry("info", environment=TWO_DEVICES | {"WHERRY_COPIERS": "8"})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("to 8 files of each pool, 8 at most", done.stdout)
        self.assertEqual(done.stdout.count("wherry-pool-dev0"), 1)

    def test_malformed_settings_are_an_error_that_shows_where(self):
        wrong = {"WHERRY_DEVICES": "capcity=64M"}
        done = wherry("info", "--json", environment=wrong)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown key 'capcity'", json.loads(done.stdout)["error"])
        self.assertIn("at character 1", done.stderr)
        done = wherry("cg", "--poisson", 8, environment=wrong)
        self.assertEqual(done.returncode, 1)
        self.assertIn("unknown key 'capcity'", done.stderr)

    def test_a_policy_that_does_not_exist_is_an_error_and_does_not_run(self):
        done = wherry("info", "--json", environment=TWO_DEVICES | {"WHERRY_POLICY": "addaptive"})
        self.assertEqual(done.returncode, 1)
        info = json.loads(done.stdout)
        self.assertIsNone(info["policy"])
        self.assertTrue(info["error"])
        self.assertIn("addaptive", done.stderr)
        done = wherry("info", environment=TWO_DEVICES | {"WHERRY_POLICY": "addaptive"})
        self.assertNotIn("addaptive", done.stdout)

    def test_help_and_version(self):
        for arguments in (["--help"], ["cg", "--help"], ["info", "--help"], ["bench", "--help"],
                          ["bench", "oversubscribe", "--help"], ["policies", "--help"],
                          ["replay", "--help"],
                          ["calibrate", "--help"], ["--version"]):
            done = wherry(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertTrue(done.stdout.strip())


def main():
    global PROGRAM
    PROGRAM = sys.argv.pop(1)
    rows = json.loads(wherry("info", "--json").stdout)["kernel"]["capabilities"]
    missing = [row["name"] for row in rows if row["required"] and not row["available"]]
    if missing:
        print(f"SKIP: no {', '.join(missing)}")
        sys.exit(SKIPPED)
    outcome = unittest.main(exit=False, verbosity=2)
    sys.exit(0 if outcome.result.wasSuccessful() else 1)


if __name__ == "__main__":
    main()
