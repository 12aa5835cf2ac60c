#!/usr/bin/env python3
"""Arguments that parallel_for and managed_array cannot pass to another process do not compile, and
the message says why.

Usage: refused_lambdas_test.py INCLUDE CXX...
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from length import some_of  # noqa: E402

# Case: the statement, and words of the message. None: the statement must compile.
CASES = {
    "a number": ("int n = 1; stream.parallel_for(1, [n](std::size_t) { (void)n; });", None),
    "a span": ("std::span<int> s; stream.parallel_for(1, [s](std::size_t i) { s[i] = 1; });", None),
    "nothing": ("stream.parallel_for(1, [](std::size_t, std::size_t) {});", None),
    "a string": ("std::string s; stream.parallel_for(1, [s](std::size_t) {});",
                 "must be trivially copyable"),
    "a smart pointer": ("auto p = std::make_shared<int>();"
                        " stream.parallel_for(1, [p](std::size_t) {});",
                        "must be trivially copyable"),
    "a managed array": ("auto a = std::make_shared<wherry::managed_array<int>>(3);"
                        " stream.parallel_for(1, [a](std::size_t) {});",
                        "must be trivially copyable"),
    "no parameter": ("stream.parallel_for(1, [] {});", "must be callable as f(std::size_t index)"),
    "mutable state": ("int n = 1; stream.parallel_for(1, [n](std::size_t) mutable { ++n; });",
                      "not be mutable"),
    "too much": ("struct { char bytes[5000]; } b{};"
                 " stream.parallel_for(1, [b](std::size_t) { (void)b; });",
                 "captures more than WHERRY_MAX_ARGS_SIZE bytes"),
    "an array of strings": ("wherry::managed_array<std::string> a(3);",
                            "managed_array: the elements move"),
}


def main():
    include, compiler = sys.argv[1], sys.argv[2:]
    problems = []
    cases = some_of(CASES.items(), "cases", below_full=0.4)
    for name, (statement, message) in cases:
        source = ("#include <wherry/wherry.hpp>\n"
                  f"void use(wherry::stream& stream) {{ (void)stream; {statement} }}\n")
        run = subprocess.run(
            [*compiler, "-std=c++20", "-I", include, "-fsyntax-only", "-x", "c++", "-"],
            input=source, capture_output=True, text=True)
        if message is None and run.returncode != 0:
            problems.append(f"{name}: should compile\n{run.stderr}")
        elif message is not None and run.returncode == 0:
            problems.append(f"{name}: should not compile")
        elif message is not None and message not in run.stderr:
            problems.append(f"{name}: the message does not say '{message}'\n{run.stderr}")
    print("\n".join(problems) or f"{len(cases)} lambdas and arrays: all as expected")
    sys.exit(1 if problems else 0)


main()
