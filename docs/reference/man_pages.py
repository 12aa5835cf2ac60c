#!/usr/bin/env python3
"""Makes the manual pages: wherry(1) from the help of the tool, and one page of section 3 for each
function of the given headers from the comment above its declaration.

Usage: man_pages.py VERSION OUT TOOL INCLUDE_FOLDER HEADER...
Writes OUT/man1/wherry.1 and OUT/man3/FUNCTION.3. HEADER is relative to INCLUDE_FOLDER.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

COMMENT = re.compile(r"^/\*.*?\*/\n", re.DOTALL | re.MULTILINE)
DECLARATION = re.compile(r"^(?:CUresult|const char\*) (?:CUDAAPI )?(\w+)\([^;]*\);",
                         re.DOTALL | re.MULTILINE)
# An entry of a part, not the continuation of one. CLI11 2.5 and later indent long names by ten.
ENTRY = re.compile(r" {2,10}(\S.*)")

EXIT_CODES = """\
.SH EXIT STATUS
.TP
0
The command has done what it was asked for.
.TP
1
It failed; one line on the standard error says why and what to do.
.TP
2
The command line, or a setting in the environment, is invalid.
.PP
.B wherry record
and
.B wherry run
return the exit code of the program that they run.
.SH ENVIRONMENT
The variables that begin with WHERRY_ choose devices, policy and trap. They are listed in
docs/tuning.md of the documentation.
"""


def text(line):
    """The line as roff shows it."""
    line = re.sub("`([^`]+)`", r"\\fI\1\\fP", line.replace("\\", "\\e"))
    return "\\&" + line if line.startswith((".", "'")) else line


def header_of(name, section, version, newest):
    date = time.strftime("%Y-%m-%d", time.gmtime(newest))
    return f'.TH {name} {section} {date} "Wherry {version}" "Wherry manual"\n'


# ---- section 1: from the help of the tool


class Help:
    """What `wherry COMMANDS --help` prints, in parts."""

    def __init__(self, tool, commands):
        self.commands = commands
        printed = subprocess.run([tool, *commands, "--help"], capture_output=True, text=True,
                                 check=True).stdout
        words = " ".join(["wherry", *commands])
        before, self.usage, after = re.fullmatch(
            rf"(.*?)^(?:Usage: )?({re.escape(words)} \[OPTIONS\].*?)$(.*)", printed,
            re.DOTALL | re.MULTILINE).groups()
        self.description = " ".join(before.split())
        self.parts = {}
        entries = None
        for line in after.splitlines():
            line = re.sub(r",\s+--", ",--", line.rstrip())
            if line and not line.startswith(" "):
                entries = self.parts.setdefault(line.rstrip(":").capitalize(), [])
            elif entry := ENTRY.match(line):
                name, _, said = entry[1].partition("  ")
                entries.append([name, said.strip()])
            elif line.strip():
                entries[-1][1] = f"{entries[-1][1]} {line.strip()}".strip()


def describe_command(page, tool, commands):
    command = Help(tool, commands)
    if commands:
        page.append(f".SS {' '.join(['wherry', *commands])}")
        page.append(text(command.description) + ".")
        page.append(f".PP\n.nf\n{text(command.usage)}\n.fi")
    for part in ("Positionals", "Options"):
        for name, said in command.parts.get(part, []):
            if commands and name == "-h,--help":
                continue
            page.append(f".TP\n.B {text(name)}\n{text(said) or name}")
    for name, said in command.parts.get("Subcommands", []):
        if [*commands, name] == ["nvcc"]:  # its help is nvcc's
            page.append(f".SS wherry nvcc\n{text(said)}.")
        else:
            describe_command(page, tool, [*commands, name])


def tool_page(tool, version, newest):
    overview = Help(tool, [])
    page = [header_of("WHERRY", 1, version, newest) + ".SH NAME",
            f"wherry \\- {text(overview.description.removeprefix('Wherry: '))}",
            f".SH SYNOPSIS\n{text(overview.usage)}", ".SH OPTIONS"]
    described = []
    describe_command(described, tool, [])
    first_command = next(i for i, line in enumerate(described) if line.startswith(".SS"))
    page += [*described[:first_command], ".SH COMMANDS", *described[first_command:]]
    return "\n".join(page) + "\n" + EXIT_CODES


# ---- section 3: from the comments of headers


def paragraphs_of(comment):
    """The comment as roff: paragraphs, lists, and code that is indented by four columns."""
    lines = [re.sub(r"^ ?\*? ?", "", line).rstrip() for line in comment.strip("\n").splitlines()]
    page, in_list, in_code = [], False, False
    for line in lines:
        item = re.match(r"( {0,2})- (.*)", line)
        indent = len(line) - len(line.lstrip())
        if in_code and indent < 4 and line:
            page.append(".fi")
            in_code = False
        if not line:
            if not in_code:
                in_list = False
                page.append(".PP")
        elif item:
            in_list = True
            name, colon, said = item[2].partition(": ")
            if colon:
                page += [".TP", ".B " + text(name), text(said)]
            else:
                page += [".TP", ".B " + text(item[2].rstrip("."))]
        elif indent >= 4 and not in_list:
            if not in_code:
                page.append(".nf")
                in_code = True
            page.append(text(line))
        elif indent == 0 and in_list:
            in_list = False
            page += [".PP", text(line)]
        else:
            page.append(text(line.strip()))
    if in_code:
        page.append(".fi")
    return page


def without_empty_paragraphs(page):
    """A paragraph needs text: roff complains about one before a list, or at the end."""
    kept = []
    for line, after in zip(page, page[1:] + [".SH"]):
        if line == ".PP" and (not kept or after.startswith((".PP", ".TP", ".SH", ".nf"))):
            continue
        kept.append(line)
    return kept


def function_pages(folder, name, version, newest):
    """(function, its page) for each documented function of a header."""
    source = (folder / name).read_text()
    # Where a header is included by another, programs include that one.
    included = "wherry/cuda.h" if "/detail/" in name else name
    for comment in COMMENT.finditer(source):
        declarations = source[comment.end():].split("\n\n")[0].split("/*")[0]
        functions = list(dict.fromkeys(DECLARATION.findall(declarations)))
        if not functions:
            continue
        body = without_empty_paragraphs(paragraphs_of(comment[0][2:-3]))
        said = " ".join(line for line in body if not line.startswith("."))
        summary = re.sub(r"\\f[IP]", "", re.split(r"[.:;](?: |$)", said)[0])
        # Other preprocessor lines only rename the function.
        by_version = "WHERRY_CUDA_API" in declarations
        shown = [line for line in declarations.splitlines() if by_version or line[:1] != "#"]
        page = [header_of(functions[0].upper(), 3, version, newest) + ".SH NAME",
                f"{', '.join(functions)} \\- {summary[0].lower()}{summary[1:]}",
                f".SH SYNOPSIS\n.nf\n#include <{included}>\n", *map(text, shown),
                ".fi\n.SH DESCRIPTION", *body, ".SH SEE ALSO", ".BR wherry (1)"]
        for function in functions:
            yield function, "\n".join(page) + "\n"


def main():
    version, out, tool, folder, *headers = sys.argv[1:]
    out, folder = pathlib.Path(out), pathlib.Path(folder)
    newest = int(os.environ.get("SOURCE_DATE_EPOCH") or
                 max((folder / name).stat().st_mtime for name in headers))
    shutil.rmtree(out, ignore_errors=True)
    for section in ("man1", "man3"):
        (out / section).mkdir(parents=True)
    (out / "man1/wherry.1").write_text(tool_page(tool, version, newest))
    for name in headers:
        for function, page in function_pages(folder, name, version, newest):
            (out / f"man3/{function}.3").write_text(page)


main()
