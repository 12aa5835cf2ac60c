#!/usr/bin/env python3
"""Times `wherry nvcc -c FILE.cu`, and the compiler alone on the rewritten file.

Prints the median of each, and of the ratios of neighbouring runs.

Usage: cuda_compile.py WHERRY FILE.cu [OPTION...]
"""
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 7


def seconds(command, folder):
    start = time.monotonic()
    subprocess.run(command, cwd=folder, check=True)
    return time.monotonic() - start


def main():
    wherry, source = (os.path.abspath(path) for path in sys.argv[1:3])
    options = sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        whole = [wherry, "nvcc", "-c", "-keep", source, "-o", "out.o", *options]
        said = subprocess.run(whole + ["-v"], cwd=folder, check=True, capture_output=True,
                              text=True).stderr
        commands = [shlex.split(line[2:]) for line in said.splitlines() if line.startswith("#$")]
        compiler = next(words for words in commands if "c++-cpp-output" in words)
        pairs = [(seconds(whole, folder), seconds(compiler, folder)) for _ in range(ROUNDS)]
    print(f"wherry nvcc      {statistics.median(a for a, _ in pairs):7.3f} s")
    print(f"compiler alone   {statistics.median(b for _, b in pairs):7.3f} s")
    print(f"ratio            {statistics.median(a / b for a, b in pairs):7.2f}   (at most 1.5)")


if __name__ == "__main__":
    main()
