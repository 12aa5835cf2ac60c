"""What a program that asks libcuda.so.1 has printed, beside what a real driver answered to the same
program.

The oracle is such a program: its sources and the driver's answers are in ../shared/oracle beside
the project, if at all."""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys

SKIPPED = 77
PATTERNS = re.compile(r"^- (`[^:]+`):", re.MULTILINE)


def compile_program(compiler, root, *arguments):
    include = ["-I", str(root / "lib/include"), "-I", str(root / "lib/include/wherry")]
    command = [*compiler, "-O1", "-w", *include, *arguments]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{run.stderr[-4000:]}")


def find_oracle(root):
    """The oracle's folder. Skips the test if it does not exist or is not readable."""
    oracle = root.parent / "shared/oracle"
    if not os.path.isdir(oracle / "src"):
        print("SKIP: no ../shared/oracle beside the project")
        sys.exit(SKIPPED)
    return oracle


def build_oracle(oracle, root, compat, compiler, folder):
    """Builds the program in the folder. Returns its path and its environment variables."""
    sources = oracle / "src"
    others = sorted(path for path in sources.glob("*.c") if path.name != "touch.c")
    compile_program(compiler, root, *others, pathlib.Path(compat, "libcuda.so.1"), "-o",
                    folder / "oracle")
    compile_program(compiler, root, "-shared", "-fPIC", sources / "touch.c", "-o",
                    folder / "touch.so")
    return folder / "oracle", {"ORACLE_MODULE": str(folder / "touch.so")}


def oracle_answers(text):
    """case -> (result, values)."""
    cases = {}
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) >= 3 and not line.startswith("#"):
            cases[words[0]] = (words[2], words[3].strip() if len(words) > 3 else "")
    return cases


def ask(command, compat, settings):
    """The program's output and its errors."""
    # The caller's environment may select real GPUs.
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    run = subprocess.run(command, env=os.environ | settings | {"LD_LIBRARY_PATH": compat},
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         errors="replace")
    return run.stdout, run.stderr[-4000:]


def explained_patterns(root, heading):
    """The patterns that begin the entries under this heading of docs/differences.md."""
    section = (root / "docs/differences.md").read_text().split(f"\n## {heading}\n", 1)[1]
    entries = PATTERNS.findall(section.split("\n## ", 1)[0])
    return [pattern for entry in entries for pattern in re.findall(r"`([^`]+)`", entry)]


def compare(expected, got, patterns, required_share):
    """Prints how the answers differ, and returns the exit status: every difference must be
    explained, and so many answers must be equal that the share is reached. Both map a case to what
    was answered."""
    different = {case: answer for case, answer in expected.items() if got.get(case) != answer}
    unexplained = [case for case in different
                   if not any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns)]
    share = 1 - len(different) / len(expected)
    for case in unexplained:
        print(f"{case}\n    driver: {' '.join(different[case])}\n"
              f"    here:   {' '.join(got.get(case, ['missing']))}")
    for pattern in patterns:
        if not fnmatch.filter(different, pattern):
            print(f"docs/differences.md: {pattern} does not differ here")
    print(f"equal {len(expected) - len(different)} of {len(expected)} = {share:.1%}, "
          f"at least {required_share:.1%} asked for; "
          f"{len(different) - len(unexplained)} differences explained, {len(unexplained)} not")
    return 1 if unexplained or share < required_share else 0
