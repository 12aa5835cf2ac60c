#!/usr/bin/python3
"""Runs the fuzzers of a build that was configured with -Dfuzz=true, each for a while, starting with
the corpus.

Usage: fuzz.py BUILD-FOLDER [--seconds N] [--seed N] [--new FOLDER] [NAME...]

Prints a line `fuzz: NAME executions N, crashes N` for each. Inputs that crash are kept in FOLDER
(default: BUILD-FOLDER/fuzz). Add each of them to tests/fuzz/corpus/NAME once the bug is fixed.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile

NAMES = ["matrix_market", "import", "trace", "cost", "policy", "devices", "elf", "mailbox"]
MEMORY_MIB = 2048
INPUT_LIMIT_S = 20
HERE = os.path.dirname(os.path.abspath(__file__))


def fuzz(name, arguments):
    program = os.path.join(arguments.build, "tests", "fuzz_" + name)
    kept = os.path.join(arguments.new, name + "-")
    with tempfile.TemporaryDirectory() as found:
        run = subprocess.run([program, f"-max_total_time={arguments.seconds}",
                              f"-seed={arguments.seed}", f"-rss_limit_mb={MEMORY_MIB}",
                              f"-timeout={INPUT_LIMIT_S}", "-print_final_stats=1",
                              f"-artifact_prefix={kept}", found,
                              os.path.join(HERE, "corpus", name)],
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, timeout=arguments.seconds + 600, text=True,
                             errors="replace")
    count = re.search(r"stat::number_of_executed_units:\s*(\d+)", run.stdout)
    crashes = 0 if run.returncode == 0 else 1
    if crashes:
        print(run.stdout[-6000:])
    print(f"fuzz: {name} executions {count.group(1) if count else 0}, crashes {crashes}",
          flush=True)
    return crashes


def parse(words):
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--new")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_intermixed_args(words)  # names may follow options
    arguments.new = arguments.new or os.path.join(arguments.build, "fuzz")
    return arguments


def main():
    arguments = parse(sys.argv[1:])
    os.makedirs(arguments.new, exist_ok=True)
    print(f"fuzz: seed {arguments.seed}", flush=True)
    return 1 if sum(fuzz(name, arguments) for name in arguments.names or NAMES) else 0


if __name__ == "__main__":
    sys.exit(main())
