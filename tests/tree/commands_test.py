#!/usr/bin/env python3
"""Every shell command that README.md and the pages of docs/ show is right.

Usage: commands_test.py SOURCE_ROOT BUILD_ROOT

- Each command of a code block is run, in the order of its page, in a temporary folder that looks
  like the root of the repository. It must succeed, and print what the page shows where it shows
  something; numbers may differ. The folder also has the files that the page shows: code that begins
  with a comment with its name, and what `cat` prints.
- The table NOT_RUN has the commands that are not run, each with the reason. The table LONG has
  those that take long: they are run only at full length (without WHERRY_TEST_SCALE).
- Each `wherry ...` within the text names a command and options that exist.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from defects import noticed  # noqa: E402

LIMIT_S = 300

CHECKOUT = "needs a checkout of other programs"
GUEST = "takes minutes on a busy machine; the tests of the suite guest do it"
MINUTES = "takes minutes"
READER = "needs what its reader has"
USER = "waits for its user"

# (page, beginning of the command, reason)
NOT_RUN = [
    ("README.md", "./tools/test", "runs this test"),
    ("README.md", "tools/setup build", "installs packages; tools/test runs it"),
    ("README.md", "wherry top", USER),
    ("README.md", "ninja -C build", "builds the repository; tools/test runs it"),
    ("README.md", "wherry bench policies", "takes minutes; tools/cli_test runs its parts"),
    ("docs/benchmarks.md", "wherry bench all  ", MINUTES),
    ("docs/benchmarks.md", "wherry bench all --json", MINUTES),
    ("docs/benchmarks.md", "wherry bench all --bytes 256M", MINUTES),
    ("docs/benchmarks.md", "wherry bench programs  ", MINUTES),
    ("docs/benchmarks.md", "wherry bench programs --only", MINUTES),
    ("docs/coherent-devices.md", "WHERRY_DEVICES='kind=coherent,node=1", "needs three nodes"),
    ("docs/cuda-samples.md", "tools/clients", CHECKOUT),
    ("docs/cuda-sources.md", "make", READER),
    ("docs/cuda-sources.md", "cmake", READER),
    ("docs/debugging.md", "gdb", USER),
    ("docs/decisions/build-time.md", "", "builds the repository; tools/test runs it"),
    ("docs/decisions/coherent-devices.md", "", "benchmarks are not built by default"),
    ("docs/decisions/drop-in.md", "LD_LIBRARY_PATH",
     "needs a program for CUDA; the tests of the suite compat run some"),
    ("docs/decisions/releases.md", "", "takes minutes, and is for a release"),
    ("docs/installing.md", "", "changes the machine; tree/install_test installs into a folder"),
    ("docs/numa.md", "tools/setup kernel", "fetches a kernel; tools/test runs it"),
    ("docs/numa.md", "python3 tests/guest/run.py", GUEST),
    ("docs/numa.md", "WHERRY_POLICY=uvm python3 tests/guest/run.py", GUEST),
    ("docs/numa.md", "qemu-system-x86_64", "a recipe, without a kernel"),
    ("docs/policies.md", "tools/client_policies", CHECKOUT),
    ("docs/python.md", "PYTHONPATH", "the suites python and examples run the page and the program"),
    ("docs/reliability.md", "./tools/", MINUTES),
    ("docs/reliability.md", "WHERRY_TEST_REPLAY", "repeats a failure"),
    ("docs/replay.md", "wherry import [", "a synopsis"),
    ("docs/replay.md", "wherry import --format damon", "the record is not in the repository"),
    ("docs/replay.md", "wherry replay damon.trace", "the record is not in the repository"),
    ("docs/replay.md", "perf", "perf is not among the packages"),
    ("docs/replay.md", "head", "perf is not among the packages"),
    ("docs/replay.md", "wherry import --format perf", "perf is not among the packages"),
    ("docs/security.md", "meson test", "runs other tests"),
    ("docs/security.md", "CC=clang", MINUTES),
    ("docs/security.md", "ninja", MINUTES),
    ("docs/security.md", "tests/fuzz/fuzz.py", MINUTES),
    ("docs/security.md", "tests/injection/injection_test.py", MINUTES),
    ("docs/top.md", "build/tools/wherry top", USER),
    ("docs/tuning.md", "wherry cg --matrix", "the matrix is not in the repository"),
]
# (page, beginning of the command)
LONG = [
    ("README.md", "./tools/demo"),
    ("README.md", "wherry bench numa"),
    ("docs/benchmarks.md", "wherry bench all --only"),
    ("docs/cuda-sources.md", "wherry"),
    ("docs/fortran.md", ""),
    ("docs/mpi.md", "mpi"),
    ("docs/numa.md", "wherry calibrate"),
    ("docs/replay.md", "wherry calibrate"),
    ("docs/tutorial.md", ""),
    ("docs/write-a-policy.md", "wherry bench policies"),
]
# (page, beginning of the command): it fails, as the page says.
FAILS = [
    ("docs/limits.md", "(ulimit -v 4194304; ./program)"),
    ("docs/system-calls.md", "setpriv"),
]

# Commands with these parts are never run: they need an entry in NOT_RUN.
FOR_THE_MACHINE = ("apt-get", "dpkg", "install ", "sudo", "sysctl")

# What a page calls its reader's program, and what runs here instead.
PLACEHOLDERS = {"PROGRAM ARGS...": "python3 -c 'print(len(bytearray(4 << 20)))'",
                "my_program": "program"}

# A block whose first line begins with one of these is shell; so is one that begins with "$ ".
PROGRAMS = {"apt-get", "cmake", "export", "g++", "gcc", "gdb", "git", "make", "meson", "ninja",
            "perf", "python3", "qemu-system-x86_64", "wherry"}
FOLDERS = ("./", "bench/", "build/", "tests/", "tools/")
SHOWN_FILE = re.compile(r"^```\w+\n/\* (\S+) \*/\n(.*?)^```$", re.DOTALL | re.MULTILINE)
ASSIGNMENT = re.compile(r"""\(?(ulimit [^;]*; *)?([A-Z_]+=('[^']*'|"[^"]*"|\S*) +)*""")
SPAN = re.compile(r"`([^`]+)`")
NUMBER = re.compile(r"[0-9][0-9.,]*")


def is_command(line):
    if line.startswith("$ "):
        return True
    words = line[ASSIGNMENT.match(line).end():].split(" ")
    if words[1:2] == ["="]:
        return False  # an assignment of another language
    return words[0] in PROGRAMS or words[0].startswith(FOLDERS)


def blocks_of(text):
    """The code blocks, each as a list of (line number, line), without indentation and fences."""
    fence, block, before = None, [], ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if fence is not None:
                yield block
            fence, block = (line[3:] if fence is None else None), []
        elif fence is not None:
            if fence in ("", "sh"):
                block.append((number, line))
        elif line.startswith("    ") and (block or not before.strip()):
            block.append((number, line[4:]))
        elif block and line.strip():
            yield block
            block = []
        before = line
    yield block


def commands_of(block):
    """(line number, command, the output that the page shows or None) of a block of shell."""
    with_prompts = block[0][1].startswith("$ ")
    commands = []
    for number, line in block:
        line = line.rstrip()
        if commands and commands[-1][1].endswith("\\"):
            commands[-1][1] = commands[-1][1][:-1] + line.lstrip()
        elif line.startswith("(gdb) "):
            continue  # typed into gdb
        elif with_prompts and not line.startswith("$ "):
            commands[-1][2].append(line)
        elif line.strip():
            commands.append([number, line.removeprefix("$ "), []])
    return [(number, command, output or None) for number, command, output in commands]


def entry_for(table, page, command, used):
    for entry in table:
        if entry[0] == page and command.startswith(entry[1]):
            used.add(entry)
            return entry
    return None


def shape_of(line):
    """The line with any numbers, and any amounts of spaces."""
    return " ".join(NUMBER.sub("N", line).split())


def fits(expected, printed):
    """Whether the page shows what was printed. "[...]" stands for any text, or for any lines."""
    pattern = ""
    for line in map(shape_of, expected):
        if line == "[...]":
            pattern += "(?:.*\n)*"
        elif line:
            pattern += re.escape(line).replace(r"\[\.\.\.\]", ".*") + "\n"
    lines = [shape_of(line) + "\n" for line in printed.splitlines() if line.strip()]
    return re.fullmatch(pattern, "".join(lines)) is not None


class Tree:
    """A folder that looks like the root of the repository, in which commands may leave files."""

    def __init__(self, source, build):
        self.folder = tempfile.TemporaryDirectory(prefix="wherry-docs-")
        self.path = pathlib.Path(self.folder.name)
        self.path.chmod(0o755)  # some commands run as another user
        for name in ("bench", "docs", "lib", "tests", "tools"):
            (self.path / name).symlink_to(source / name)
        (self.path / "build").symlink_to(build)
        shutil.copy(build / "docs/example_first", self.path / "program")
        shutil.copy(build / "docs/libexample_stay_put.so", self.path / "stay_put.so")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("WHERRY_", "CUDA_", "OMP_"))}
        self.environment |= {
            # The system's python3 is the one that has the packages.
            "PATH": f"{build}/tools:/usr/bin:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": f"{build}/lib",
            "PKG_CONFIG_PATH": f"{build}/meson-uninstalled",
            "XDG_CACHE_HOME": str(self.path / "cache"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        }
        self.exports = ""
        survey = json.loads(subprocess.run([build / "tools/wherry", "info", "--json"],
                                           capture_output=True, check=True).stdout)
        # Other users may not handle faults inside system calls, which `wherry run` needs.
        self.may_run_others = survey["trap"]["runs"] == "userfaultfd"

    def permits(self, command):
        program = command.split(" ")[0]
        if program.startswith("build/") and not (self.path / program).exists():
            return False  # an example that needs a library that is not installed
        if "setpriv " in command:
            return os.geteuid() == 0
        return self.may_run_others or not command.startswith("wherry run ")

    def run(self, command):
        """The exit code, and what the command wrote to both streams. 124: it took too long."""
        if command.startswith("export "):
            self.exports += command + "\n"
        for theirs, ours in PLACEHOLDERS.items():
            command = command.replace(theirs, ours)
        done = noticed(subprocess.run(
            ["timeout", "--kill-after=10", str(LIMIT_S), "bash", "-c", self.exports + command],
            cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace"))
        return done.returncode, done.stdout


def check_page(name, text, tree, at_length, used, counts):
    for file, content in SHOWN_FILE.findall(text):
        (tree.path / file).write_text(content)
    for block in blocks_of(text):
        if not block or not is_command(block[0][1]):
            continue
        for number, command, output in commands_of(block):
            if command.startswith("cat ") and output:
                (tree.path / command.removeprefix("cat ")).write_text("\n".join(output) + "\n")
            where = f"{name}:{number}: {command}"
            if entry_for(NOT_RUN, name, command, used):
                counts["not run"] += 1
                continue
            if any(part in command for part in FOR_THE_MACHINE):
                yield f"{where}\nchanges the machine, so NOT_RUN must have it"
                continue
            if not tree.permits(command):
                counts["not possible here"] += 1
                continue
            if entry_for(LONG, name, command, used) and not at_length:
                counts["too long"] += 1
                continue
            begun = time.monotonic()
            code, printed = tree.run(command)
            counts["run"] += 1
            print(f"{time.monotonic() - begun:5.1f} s  {where}", flush=True)
            if (code != 0) != (entry_for(FAILS, name, command, used) is not None):
                yield f"{where}\nexit code {code}\n{printed}"
            elif output is not None and not fits(output, printed):
                shown = "\n".join(output)
                yield f"{where}\nthe page shows:\n{shown}\nit printed:\n{printed}"


class Tool:
    """The commands of `wherry` and their options, as its help shows them."""

    def __init__(self, path):
        self.path = path
        self.known = {}

    def help(self, *commands):
        if commands not in self.known:
            text = subprocess.run([self.path, *commands, "--help"], capture_output=True, text=True,
                                  check=True).stdout
            # CLI11 writes the head in capitals from 2.5 on.
            below = "".join(re.split("^subcommands:$", text, flags=re.I | re.M)[1:])
            self.known[commands] = (set(re.findall(r"^  ([a-z]+)", below, re.MULTILINE)),
                                    set(re.findall(r"--?[a-z][a-z-]*", text)))
        return self.known[commands]

    def fault_of(self, span):
        """What is wrong with `wherry ...`; None if nothing is."""
        words = span[ASSIGNMENT.match(span).end():].split(" -- ")[0].split()[1:]
        commands = []
        while words and words[0] in self.help(*commands)[0]:
            commands.append(words.pop(0))
        if not commands and words and re.fullmatch("[a-z]+", words[0]):
            return f"wherry has no command {words[0]}"
        if commands[:1] == ["nvcc"]:
            return None  # nvcc's own options
        for word in words:
            option = re.match(r"\[?(--[a-z][a-z-]*)", word)
            if option and option[1] not in self.help(*commands)[1]:
                return f"wherry {' '.join(commands)} has no option {option[1]}"
        return None


def check_spans(name, text, tool):
    for number, paragraph in enumerate(re.split(r"\n\s*\n", text), 1):
        for span in SPAN.findall(" ".join(paragraph.split())):
            if re.match(ASSIGNMENT.pattern + r"wherry ", span):
                fault = tool.fault_of(span)
                if fault:
                    yield f"{name}: `{span}`: {fault}"


def main():
    source, build = (pathlib.Path(path).resolve() for path in sys.argv[1:])
    at_length = float(os.environ.get("WHERRY_TEST_SCALE", "1")) >= 1
    pages = [source / "README.md", *sorted((source / "docs").rglob("*.md"))]
    tool, tree = Tool(build / "tools/wherry"), Tree(source, build)
    found, used = [], set()
    counts = {"run": 0, "not run": 0, "not possible here": 0, "too long": 0}
    for page in pages:
        name, text = str(page.relative_to(source)), page.read_text()
        found += check_spans(name, text, tool)
        tree.exports = ""
        found += check_page(name, text, tree, at_length, used, counts)
    for table in (NOT_RUN, LONG, FAILS):
        found += [f"{entry[0]} does not show: {entry[1]}" for entry in table if entry not in used]
    print("\n\n".join(found))
    print(", ".join(f"{count} commands {what}" for what, count in counts.items()))
    sys.exit(1 if found else 0)


main()
