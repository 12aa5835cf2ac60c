"""The C functions that exports.h declares, and the rows of the two lists of functions."""

import pathlib
import re
import subprocess

DECLARATION = re.compile(r"\b(CUresult|cudaError_t)\s+(\w+)\s*\(([^;{}]*)\)\s*;")


def rows(path):
    """Returns the words of each row."""
    lines = pathlib.Path(path).read_text().splitlines()
    return [line.split() for line in lines if not line.startswith("#")]


def declarations(header, output, depfile, compiler):
    """Returns the result and parameters of each function, by name. Writes a dependency file."""
    command = [*compiler, "-E", "-P", "-MD", "-MF", depfile, "-MT", output, "-x", "c", header]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {name: (result, " ".join(parameters.split()))
            for result, name, parameters in DECLARATION.findall(text)}
