#!/usr/bin/env python3
"""`wherry run`: programs that know nothing of Wherry print what they print without it.

Usage: run_test.py PROGRAM FOLDER
  FOLDER     has the test programs
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent.parent / name) for name in ("support", "tools")]
import cli_test  # noqa: E402
from cli_test import Case, wherry  # noqa: E402
from defects import noticed  # noqa: E402
from length import IS_SHORT, SCALE, some_tests  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
# Of the random sequences of calls.
STEPS = 100 if IS_SHORT else 300
SEED = int(os.environ.get("WHERRY_TEST_SEED", "1"))
FOLDER = pathlib.Path()

# Two small devices whose threads take pages from each other and from the host.
DEVICES = ["--devices", "capacity=8M;capacity=16M", "--attach", "index=0:0",
           "--attach", "index=1-1000:1"]
MOVING = [*DEVICES, "--policy", "migrate-always"]
# In the order of the report's list.
REASONS = ["mprotect", "mremap", "mlock", "fixed", "advice", "fork", "kernel use"]
# The second is libmimalloc.so.2.0 on Debian 12, libmimalloc.so.3 on Debian 13.
ALLOCATORS = ["libjemalloc.so.2", "libmimalloc.so.*", "libtcmalloc_minimal.so.4"]


def program(name):
    return FOLDER / f"run_{name}"


def plain(*command, environment=None, **more):
    clean = {name: value for name, value in os.environ.items()
             if not name.startswith(("WHERRY_", "CUDA_"))}
    return noticed(subprocess.run([*map(str, command)], env=clean | (environment or {}),
                                  capture_output=True, text=True, timeout=120,
                                  stdin=subprocess.DEVNULL, **more))


def path_of_allocator(library):
    paths = sorted(pathlib.Path(f"/usr/lib/{os.uname().machine}-linux-gnu").glob(library))
    assert paths, f"{library} is not installed (tools/packages.txt)"
    return paths[0]


def compiled(result, source, *flags):
    """Compiles the C file; returns an empty text, or why that is impossible."""
    if shutil.which("gcc") is None:
        return "gcc is not installed"
    done = plain("gcc", "-D_GNU_SOURCE", "-pthread", "-fno-builtin-malloc", source, *flags, "-o",
                 result)
    return "" if done.returncode == 0 else f"gcc {' '.join(map(str, flags))}: {done.stderr}"


def every_user_may_use_userfaultfd():
    setting = pathlib.Path("/proc/sys/vm/unprivileged_userfaultfd").read_text().strip()
    return setting == "1" or os.access("/dev/userfaultfd", os.R_OK, effective_ids=False) and \
        pathlib.Path("/dev/userfaultfd").stat().st_mode & 0o004 != 0


class Same(Case):
    def assert_same(self, command, options=(), environment=None):
        """Runs the command without and with `wherry run`; returns the report of the latter."""
        before = plain(*command, environment=environment)
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report"
            after = wherry("run", *options, "--report", report, "--", *command,
                           environment=environment)
            self.assertEqual(after.stdout, before.stdout, after.stderr)
            self.assertEqual(after.returncode, before.returncode, after.stderr)
            return json.loads(report.read_text())

    def managed(self, report):
        self.assertGreater(report["processes"], 0)
        self.assertGreater(report["objects"] + report["mappings"], 0)
        return report


@some_tests(0.4)
class MemoryCalls(Same):
    """Random sequences of all calls that allocate, change and free memory."""

    def run_seeds(self, count, options, environment=None):
        made_private = [0] * len(REASONS)
        for i in range(count):
            seed = SEED * 1000 + i
            with self.subTest(seed=seed, options=options):
                report = self.managed(self.assert_same(
                    [program("memory_calls"), seed, STEPS], options, environment))
                for j, times in enumerate(report["made_private"]):
                    made_private[j] += times
        return made_private

    def test_the_same_is_found_where_pages_move(self):
        count = max(2, int(8 * SCALE))
        made_private = self.run_seeds(count, MOVING)
        if count >= 8:
            for reason, times in zip(REASONS[:4], made_private):
                self.assertGreater(times, 0, f"no memory became private by {reason}")

    def test_the_same_is_found_under_other_policies(self):
        for policy in ("uvm", "adaptive", "remote-always"):
            self.run_seeds(max(1, int(2 * SCALE)), [*DEVICES, "--policy", policy])

    def test_the_same_is_found_without_devices_and_with_small_allocations_managed(self):
        self.run_seeds(max(1, int(2 * SCALE)), ["--min-size", "64K"])

    def test_the_same_is_found_with_other_traps(self):
        # The setup "mprotect" forbids userfaultfd, which sigbus needs.
        for trap in ("mprotect",) if "WHERRY_TRAP" in os.environ else ("mprotect", "sigbus"):
            self.run_seeds(1, MOVING, {"WHERRY_TRAP": trap})

    def test_the_same_is_found_with_other_allocators(self):
        for library in ALLOCATORS:
            self.run_seeds(1, DEVICES, {"LD_PRELOAD": str(path_of_allocator(library))})


class Allocators(Same):
    """Allocators that hold their locks while they map memory."""

    @unittest.skipIf(os.geteuid() != 0, "left alone (ordinary_user_test.py)")
    def test_an_allocator_inside_of_the_program(self):
        report = self.managed(self.assert_same([program("own_allocator")], DEVICES))
        self.assertGreater(report["mappings"], 3)
        self.assertEqual(sum(report["made_private"]), 0)

    def test_preloaded_allocators(self):
        for library in ALLOCATORS:
            # Of these, jemalloc is the one that maps with its locks held.
            kinds = ["alone", "thread", "forks"] if "jemalloc" in library else ["alone", "thread"]
            for kind in kinds:
                with self.subTest(library=library, kind=kind):
                    self.assert_same([program("small_allocations"), kind],
                                     environment={"LD_PRELOAD": str(path_of_allocator(library))})

    def test_an_allocator_that_the_program_is_linked_with(self):
        with tempfile.TemporaryDirectory() as folder:
            linked = pathlib.Path(folder) / "linked"
            why_not = compiled(linked, HERE / "small_allocations.c",
                               path_of_allocator("libjemalloc.so.2"))
            if why_not:
                self.skipTest(why_not)
            for kind in ("alone", "thread", "forks"):
                with self.subTest(kind=kind):
                    self.assert_same([linked, kind])


class AwkwardCalls(Same):
    def test_rare_and_legal_uses_of_memory(self):
        for options in ([], DEVICES, MOVING):
            with self.subTest(options=options):
                self.managed(self.assert_same([program("awkward_calls")], options))

    def test_processes_without_a_summary_are_counted(self):
        done = wherry("run", "--", "/usr/bin/python3", "-c",
                      "import os; a = bytearray(9 << 20); os._exit(3)")
        self.assertEqual(done.returncode, 3)
        self.assertIn("1 process had managed memory and ended without exit handlers", done.stderr)


class Processes(Same):
    def test_every_way_to_start_a_process(self):
        report = self.assert_same([program("processes")], DEVICES)
        # The first one, and those that exec started: each has managed memory of its own. (The first
        # one ends in an exec, and has no report.)
        self.assertGreaterEqual(report["processes"], 4)

    def test_forked_children_are_counted_with_what_they_got(self):
        report = self.assert_same(
            ["/usr/bin/python3", "-c",
             "import os\n"
             "a = bytearray(32 << 20)\n"
             "a[5] = 7\n"
             "if os.fork() == 0:\n"
             "    print(a[5], sum(a), flush=True); a[5] = 8; os._exit(0)\n"
             "os.wait(); print(a[5])\n"])
        self.assertEqual(report["forks"], 1)
        self.assertGreaterEqual(report["fork_bytes"], 32 << 20)


    def test_a_program_that_closes_all_files_keeps_its_memory(self):
        report = self.assert_same(
            ["/usr/bin/python3", "-c",
             "import os\n"
             "a = bytearray(16 << 20)\n"
             "os.closerange(3, 1 << 16)\n"
             "for i in range(3, 3000):\n"
             "    try: os.close(i); print('closed', i)\n"
             "    except OSError: pass\n"
             "print(os.open('/dev/null', 0))\n"
             "b = bytearray(16 << 20)\n"
             "a[7] = 1\n"
             "print(sum(a[::4096]), sum(b[7::4096]))\n"])
        self.assertGreaterEqual(report["most_bytes"], 32 << 20)


class Forks(Same):
    """Forks in unusual states: the child has the memory as soon as it runs."""

    def assert_fork(self, kind):
        self.managed(self.assert_same([program("unusual_forks"), kind]))

    def test_fork_handlers_that_wait_for_a_thread_which_allocates(self):
        self.assert_fork("lock-handlers")

    def test_fork_handlers_that_use_large_memory_in_the_child(self):
        self.assert_fork("child-handlers")

    def test_the_destructor_of_a_library_forks(self):
        self.assert_fork("end")

    def test_other_threads_run_on_stacks_in_large_memory(self):
        for kind in ("malloc-stacks", "mmap-stacks"):
            with self.subTest(kind=kind):
                self.assert_fork(kind)

    def test_children_change_what_they_got_as_any_memory(self):
        self.managed(self.assert_same([program("child_copies")]))

    def test_a_signal_handler_forks(self):
        self.assert_fork("signal")


class SignalHandlers(Case):
    def test_their_calls_are_the_program_s_at_any_moment(self):
        done = wherry("run", "--", program("handler_mappings"))
        self.assertEqual((done.stdout, done.returncode), ("can be cancelled\n", 8), done.stderr)
        self.assertRegex(done.stderr, r"(?m)^[1-9]\d* aligned, 0 others$")


@some_tests(0.5)
class Threads(Same):
    def assert_managed_same(self, name, *arguments, options=()):
        with self.subTest(name=name, arguments=arguments, options=options):
            self.managed(self.assert_same([program(name), *arguments], options))

    def test_words_on_which_linux_wakes_threads_become_private(self):
        for kind in ("join", "semaphore"):
            self.assert_managed_same("waits", kind)

    def test_words_on_which_linux_wakes_threads_move(self):
        for kind in ("join", "semaphore"):
            self.assert_managed_same("waits", kind, "moved", options=MOVING)

    def test_mutexes_that_linux_changes_while_samples_are_taken(self):
        for kind in ("robust", "priority"):
            self.assert_managed_same("waits", kind, options=["--sample", "50"])

    def test_calls_of_a_thread_whose_cancellation_is_pending(self):
        for call in ("malloc", "realloc", "mmap", "fixed mmap", "munmap", "partial munmap",
                     "mprotect", "mremap", "madvise", "mlock", "fork"):
            self.assert_managed_same("cancelled_calls", call)

    def test_memory_of_a_forked_child_changes_beside_its_writers(self):
        self.assert_managed_same("beside_writers", "child")

    def test_pages_are_given_up_while_their_region_becomes_private(self):
        self.assert_managed_same("beside_writers", "advice")


class DirectReads(Case):
    def test_linux_reads_into_memory_that_does_not_move(self):
        """Only where the memory is managed."""
        command = ["--", program("direct_reads")]
        for options, code, expected in (([], 0, "Linux got other memory, and the data is here\n"),
                                        (["--min-size", "1G"], 3, "Linux got this memory\n")):
            with self.subTest(options=options):
                done = wherry("run", "--quiet", *options, *command)
                self.assertEqual((done.stdout, done.returncode), (expected, code), done.stderr)


class FirstAllocation(Same):
    """States of a program in which the library has to begin."""

    def test_in_the_constructor_of_a_library_that_the_program_loads(self):
        code = "import ctypes, signal, sys; signal.alarm(60); ctypes.CDLL(sys.argv[1])"
        # Python itself begins with smaller allocations.
        self.assert_same(["/usr/bin/python3", "-c", code, FOLDER / "librun_early.so"],
                         ["--min-size", "6M"], {"ALLOCATE_IN_CONSTRUCTOR": "1"})

    def test_a_thread_of_such_a_constructor_does_not_wait_for_the_loader(self):
        code = ("import ctypes, signal, sys; signal.alarm(60); a = bytearray(8 << 20); "
                "ctypes.CDLL(sys.argv[1])")
        for rule in ("host", "index=1:0"):
            with self.subTest(rule=rule):
                self.managed(self.assert_same(
                    ["/usr/bin/python3", "-c", code, FOLDER / "librun_early.so"],
                    ["--attach", rule], {"THREAD_IN_CONSTRUCTOR": "1"}))

    def test_another_thread_opens_files_meanwhile(self):
        self.managed(self.assert_same([program("first_allocation"), "files"]))

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_programs_that_have_given_up_their_rights_are_left_alone_with_a_line(self):
        command = [program("first_allocation"), "rights"]
        done = wherry("run", "--quiet", "--", *command)
        self.assertEqual((done.stdout, done.returncode), (plain(*command).stdout, 0), done.stderr)
        if not every_user_may_use_userfaultfd():
            self.assertIn("wherry", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


@some_tests(0.5)
class RealPrograms(Same):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.text = pathlib.Path(cls.folder.name) / "text"
        lines = (f"{i * 2654435761 % 1000003} line {i}\n"
                 for i in range(60000 if IS_SHORT else 200000))
        cls.text.write_text("".join(lines))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_sort(self):
        self.managed(self.assert_same(["sort", "--parallel=2", "-S", "20M", self.text], DEVICES))

    def test_xz(self):
        self.managed(self.assert_same(
            ["sh", "-c", f"xz -3 -T2 -c {self.text} | tee /dev/null | xz -d | cksum"], DEVICES))

    def test_a_compiler(self):
        source = pathlib.Path(self.folder.name) / "program.cc"
        source.write_text("#include <map>\n#include <regex>\n#include <string>\n"
                          "std::map<std::string, std::regex> all;\n")
        self.managed(self.assert_same(
            ["sh", "-c", f"g++ -O1 -S -o - {source} | cksum"]))

    def test_numpy(self):
        self.managed(self.assert_same(
            ["/usr/bin/python3", "-c",
             "import numpy, subprocess\n"
             "a = numpy.random.RandomState(3).rand(500, 500)\n"
             "print((a @ a).sum(), abs(numpy.fft.fft2(a)).sum(), numpy.sort(a.ravel())[1000])\n"
             "print(subprocess.run(['echo', 'hello'], capture_output=True).stdout)\n"], DEVICES))


class Interface(Same):
    def test_threads_count_as_the_rules_say(self):
        device = 1  # after the host
        report = self.assert_same([program("thread_rules")],
                                  ["--devices", "capacity=64M;capacity=64M",
                                   "--attach", "name=solver-*:1"])
        processors = report["processors"]
        block = 512
        self.assertGreaterEqual(processors[1 + device]["populated"], 8 * block)
        self.assertGreater(processors[0]["populated"], 0)
        self.assertEqual(processors[1]["populated"], 0)
        self.assertEqual([processor["held"] for processor in processors], [0, 0, 0])
        report = self.assert_same([program("thread_rules")],
                                  ["--devices", "capacity=64M;capacity=64M",
                                   "--attach", "index=2:0", "--attach", "host"])
        processors = report["processors"]
        self.assertGreaterEqual(processors[1]["populated"], 4 * block)
        self.assertEqual(processors[2]["populated"], 0)

    def test_the_exit_code_and_signals_are_the_program_s(self):
        self.assertEqual(wherry("run", "--", "sh", "-c", "exit 7").returncode, 7)
        done = wherry("run", "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual(done.returncode, 128 + signal.SIGTERM)
        done = wherry("run", "--", "/no/such/program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("No such file", done.stderr)

    def test_the_summary_is_on_stderr_and_can_be_left_out(self):
        command = ["/usr/bin/python3", "-c", "print(len(bytes(9 << 20)))"]
        done = wherry("run", "--", *command)
        self.assertEqual(done.stdout, f"{9 << 20}\n")
        self.assertIn("wherry run: managed memory in", done.stderr)
        self.assertEqual(wherry("run", "--quiet", "--", *command).stderr, "")
        self.assertIn("no allocation was large enough", wherry("run", "--", "true").stderr)

    def test_a_process_in_which_the_library_cannot_start_is_named(self):
        done = wherry("run", "--", "sh", "-c",
                      "ulimit -v 400000; exec /usr/bin/python3 -c 'print(len(bytes(9 << 20)))'")
        self.assertEqual((done.returncode, done.stdout), (0, f"{9 << 20}\n"))
        self.assertIn("RLIMIT_AS", done.stderr)
        self.assertIn("in 1 process the library could not start", done.stderr)
        self.assertNotIn("no allocation was large enough", done.stderr)

    def test_memory_that_does_not_fit_is_named_with_the_limit(self):
        done = wherry("run", "--devices", "capacity=64M", "--min-size", "8M", "--",
                      "/usr/bin/python3", "-c",
                      "a = bytearray(16 << 20); print(len(bytearray(200 << 20)))",
                      environment={"WHERRY_HOST_CAPACITY": "64M"})
        self.assertEqual((done.returncode, done.stdout), (0, f"{200 << 20}\n"))
        self.assertRegex(done.stderr, r"1 allocation did not fit, and stayed ordinary memory: "
                                      r"cuMemAllocManaged: .* raise WHERRY_HOST_CAPACITY\n")
        self.assertNotIn("WHERRY_ARENA", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "chroot needs root")
    def test_the_summary_contains_a_program_that_has_changed_its_root(self):
        code = ("import os, sys; os.chroot(sys.argv[1]); os.closerange(3, 20000)\n"
                "if os.fork() == 0: os.chroot('.')\n"
                "else: os.wait()\n"
                "print(len(bytearray(9 << 20)), flush=True)")
        with tempfile.TemporaryDirectory() as root:
            done = wherry("run", "--min-size", "8M", "--", "/usr/bin/python3", "-c", code, root)
        self.assertEqual(done.stdout, f"{9 << 20}\n" * 2)
        self.assertIn("wherry run: managed memory in 2 allocations", done.stderr)
        self.assertIn("in 2 processes", done.stderr)
        self.assertNotIn("libnuma", done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root can become another user")
    def test_the_summary_contains_a_program_that_has_given_up_its_rights(self):
        code = ("import os; memory = bytearray(9 << 20); os.setgroups([]); os.setgid(65534)\n"
                "os.setuid(65534); print(len(memory))")
        done = wherry("run", "--min-size", "8M", "--", "/usr/bin/python3", "-c", code)
        self.assertEqual(done.stdout, f"{9 << 20}\n")
        self.assertIn("wherry run: managed memory in 1 allocation", done.stderr)

    def test_wrong_options_are_named_and_the_program_is_not_run(self):
        for options, words in [
                (["--attach", "somewhere"], "--attach somewhere: use by-cpu"),
                (["--attach", "index=x:1"], "--attach index=x:1: use by-cpu"),
                (["--devices", "kind=isolated"], "use kind=coherent"),
                (["--devices", "capacity=oops"], "WHERRY_DEVICES"),
                (["--policy", "nonsense"], "--policy: "),
                (["--min-size", "1K"], "--min-size: the least is 64K"),
                (["--report", "/no/such/folder/file"], "cannot write /no/such/folder/file"),
                (["--record", "/no/such/folder/file"], "cannot write /no/such/folder/file")]:
            with self.subTest(options=options):
                done = wherry("run", *options, "--", "echo", "ran")
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(words, done.stderr)
                self.assertIn("was not run", done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_static_programs_are_left_alone_with_a_line(self):
        done = wherry("run", "--", "/bin/busybox", "echo", "hello")
        self.assertEqual((done.returncode, done.stdout), (0, "hello\n"))
        self.assertEqual(done.stderr,
                         "wherry: /bin/busybox runs without Wherry: it is linked statically\n")

    @unittest.skipIf(os.geteuid() != 0, "only root can make a file of another user")
    def test_set_uid_programs_are_left_alone_with_a_line(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            copy = pathlib.Path(folder) / "copy"
            shutil.copy("/bin/echo", copy)
            os.chown(copy, 65534, 65534)
            os.chmod(copy, 0o4755)
            done = wherry("run", "--", copy, "hello")
            self.assertEqual((done.returncode, done.stdout), (0, "hello\n"))
            self.assertIn("runs with more rights than its user has", done.stderr)

    def test_sanitized_programs_are_left_alone_with_a_line(self):
        text = ("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
                "int main(void) {\n  char* const memory = malloc(8u << 20);\n"
                "  memset(memory, 3, 8u << 20);\n  printf(\"%d\\n\", memory[5]);\n"
                "  free(memory);\n  return 7;\n}\n")
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "sanitized.c"
            source.write_text(text)
            for kind in ("address", "thread", "leak"):
                with self.subTest(kind=kind):
                    sanitized = source.with_name(kind)
                    why_not = compiled(sanitized, source, f"-fsanitize={kind}")
                    if why_not:
                        self.skipTest(why_not)
                    before = plain(sanitized)
                    if (before.returncode, before.stdout) != (7, "3\n"):
                        self.skipTest(f"-fsanitize={kind} does not work here: {before.stderr}")
                    done = wherry("run", "--", sanitized)
                    self.assertEqual((done.returncode, done.stdout), (7, "3\n"), done.stderr)
                    self.assertIn(f"{sanitized} runs without Wherry", done.stderr)
                    self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_parent_that_ignores_the_ends_of_its_children(self):
        code = ("import signal, sys\n"
                "print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN, len(bytes(9 << 20)))\n"
                "sys.exit(7)\n")
        done = plain(cli_test.PROGRAM, "run", "--", "/usr/bin/python3", "-c", code,
                     preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual((done.returncode, done.stdout), (7, f"True {9 << 20}\n"), done.stderr)

    def test_a_trace_is_of_the_program_and_not_of_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            child = "/usr/bin/python3 -c 'bytes(9 << 20)'"
            done = wherry("run", "--record", trace, "--", "/usr/bin/python3", "-c",
                          f"import os; a = bytearray(64 << 20); os.system(\"{child}\")")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(folder), ["trace"])
            events = json.loads(wherry("trace", trace, "--format", "json").stdout)["events"]
            allocated = [event["bytes"] for event in events if event["kind"] == "allocation"]
            self.assertGreaterEqual(max(allocated), 64 << 20)
            done = wherry("run", "--record", pathlib.Path(folder) / "%p", "--", "sh", "-c",
                          f"{child}; {child}")
            self.assertEqual(len(os.listdir(folder)), 3, done.stderr)

    def test_samples_are_recorded_for_programs_that_never_fault(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder) / "trace"
            code = ("import time\na = bytearray(16 << 20)\nend = time.monotonic() + 1.5\n"
                    "while time.monotonic() < end: sum(a[::4096])\n")
            done = wherry("run", "--sample", "5", "--record", trace, "--", "/usr/bin/python3", "-c",
                          code)
            self.assertEqual(done.returncode, 0, done.stderr)
            events = json.loads(wherry("trace", trace, "--format", "json").stdout)["events"]
            samples = [event for event in events
                       if event["kind"] == "fault" and event["cause"] == "sample"]
            self.assertGreater(len(samples), 20)

    def test_the_library_s_threads_have_the_cpus_that_the_program_began_with(self):
        code = ("import os, time\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
                "a = bytearray(16 << 20)\n"
                "def threads():\n"
                "  return {open(f'/proc/self/task/{thread}/comm').read().strip(): int(thread)\n"
                "          for thread in os.listdir('/proc/self/task')}\n"
                "while 'wherry-usage' not in threads(): time.sleep(0.01)\n"
                "for name, thread in threads().items():\n"
                "  print('main' if thread == os.getpid() else name,\n"
                "        *sorted(os.sched_getaffinity(thread)))\n")
        # Python itself begins with smaller allocations.
        done = wherry("run", "--quiet", "--min-size", "8M", "--", "/usr/bin/python3", "-c", code,
                      environment={"WHERRY_SAMPLING": "2"})
        cpus = {}
        for line in done.stdout.splitlines():
            name, *numbers = line.split()
            cpus[name] = [int(number) for number in numbers]
        mine = sorted(os.sched_getaffinity(0))
        self.assertEqual(cpus.get("wherry-usage"), mine, done.stderr)
        self.assertEqual(cpus.get("main"), mine[:1])

    def test_a_killed_program_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            code = ("import os, time\na = bytearray(32 << 20)\n"
                    "print(os.getpid(), flush=True)\ntime.sleep(60)\n")
            tool = subprocess.Popen(
                [cli_test.PROGRAM, "run", "--", "/usr/bin/python3", "-c", code],
                env=os.environ | {"TMPDIR": folder}, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            process = int(tool.stdout.readline())
            os.kill(process, signal.SIGKILL)
            _, errors = tool.communicate(timeout=30)
            self.assertEqual(tool.returncode, 128 + signal.SIGKILL)
            self.assertIn("ended without exit handlers", errors)
            self.assertEqual(os.listdir(folder), [])
            for _ in range(100):
                if not pathlib.Path(f"/proc/{process}").exists():
                    break
                time.sleep(0.05)
            self.assertFalse(pathlib.Path(f"/proc/{process}").exists())


class Benchmark(Case):
    """`wherry bench programs`."""

    def bench_of_fake_openssl(self, script, *arguments):
        """Benchmarks a shell script in the place of openssl, whose inputs take no time to make."""
        with tempfile.TemporaryDirectory() as folder:
            fake = pathlib.Path(folder) / "openssl"
            fake.write_text(f"#!/bin/sh\n{script}\n")
            fake.chmod(0o755)
            return wherry("bench", "programs", "--only", "openssl", "--rounds", 2, "--warm", 0,
                          *arguments, environment={"PATH": f"{folder}:{os.environ['PATH']}"})

    def test_programs_are_compared_with_and_without_the_library(self):
        done = self.bench_of_fake_openssl("echo $$ bytes", "--json", "--record", "--sample", 2)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        row, = json.loads(done.stdout)["rows"]
        self.assertEqual((row["program"], row["installed"], row["repeats"]),
                         ("openssl", True, True))
        for way in ("without", "with", "record", "sample"):
            self.assertEqual((row[way]["code"], row[way]["same"]), (0, True), way)
            self.assertEqual(len(row[way]["all_seconds"]), 2)
        self.assertGreater(row["with"]["ratio"], 0)

        done = self.bench_of_fake_openssl('echo "bytes ${LD_PRELOAD:+preloaded}"')
        self.assertEqual((done.returncode, done.stderr),
                         (1, "wherry: openssl (with) has other results\n"))
        self.assertIn("NO", done.stdout)
        done = self.bench_of_fake_openssl('[ -z "$LD_PRELOAD" ] || exit 3')
        self.assertEqual((done.returncode, done.stderr),
                         (1, "wherry: openssl (with) failed with code 3\n"))
        done = self.bench_of_fake_openssl("exit 4")
        self.assertEqual((done.returncode, done.stderr),
                         (1, "wherry: openssl fails without Wherry, with code 4\n"))
        # Results that differ by themselves say nothing about the library.
        done = self.bench_of_fake_openssl('[ -e once ] && echo again; touch once')
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("varies", done.stdout)


class Kinds(Case):
    """What is managed, and what is not."""

    def report_of_run(self, code):
        """The report of a Python program under `wherry run`."""
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report"
            # Newer Pythons warn of a fork beside threads, as Wherry's are.
            done = wherry("run", "--quiet", "--min-size", "16M", "--report", report, "--",
                          "/usr/bin/python3", "-W", "ignore::DeprecationWarning", "-c", code)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            return json.loads(report.read_text()), done.stdout

    def test_mappings_without_reserved_swap_space_are_managed(self):
        # jemalloc has all its memory by such mappings.
        report, text = self.report_of_run("""
import mmap
flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000  # MAP_NORESERVE
memory = mmap.mmap(-1, 32 << 20, flags=flags)
memory[5 << 20] = 7
print(memory[5 << 20], memory[6 << 20])""")
        self.assertEqual(text, "7 0\n")
        self.assertEqual((report["processes"], report["mappings"]), (1, 1))

    def test_forked_children_are_managed_unless_the_parent_was_before(self):
        program = """
import os
%s
if os.fork() == 0:
    memory = bytearray(32 << 20)
else:
    os.wait()
    memory = bytearray(64 << 20)
memory[5 << 20] += 7
print(memory[5 << 20], flush=True)"""
        report, text = self.report_of_run(program % "")
        self.assertEqual(text, "7\n7\n")
        self.assertEqual((report["processes"], report["objects"], report["forks"]), (2, 2, 0))
        self.assertGreaterEqual(report["most_bytes"], 96 << 20)
        report, text = self.report_of_run(program % "before = bytearray(16 << 20)")
        self.assertEqual(text, "7\n7\n")
        self.assertEqual((report["processes"], report["objects"], report["forks"]), (1, 2, 1))


if __name__ == "__main__":
    cli_test.PROGRAM = str(pathlib.Path(sys.argv[1]).resolve())
    FOLDER = pathlib.Path(sys.argv[2]).resolve()
    del sys.argv[1:3]
    print(f"WHERRY_TEST_SEED={SEED} WHERRY_TEST_SCALE={SCALE}")
    unittest.main()
