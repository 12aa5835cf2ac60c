#!/usr/bin/env python3
"""Every #include in lib/ names its own layer or a lower one, by the order of the tables in
lib/README.md; and no layer below `objects` names a type, a function or a constant of CUDA, except
what users see (`include`).

Usage: layers_test.py LIB
First checks itself: it must find each kind of error in small trees made for that. Then checks LIB.
"""

import pathlib
import re
import sys
import tempfile

LAYER_ROW = re.compile(r"^\| ([a-z_]+) \|", re.MULTILINE)
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(wherry/[^>]+)>)', re.MULTILINE)
CUDA = re.compile(r"\b(?:CU[a-z]\w*|CU_\w+|CUDA_\w+|cu[A-Z]\w*|cuda[A-Z]\w*)\b")
CUDA_HEADER = re.compile(r'#\s*include\s+["<]((?:wherry/)?(?:detail/)?cuda[\w/.]*)[">]')
# Comments and texts: a message may say which function of CUDA helps.
WORDS = re.compile(r'//.*|"(?:\\.|[^"\\\n])*"')
WITH_CUDA = {"include"}
SOURCES = {".h", ".cc", ".c", ".hpp"}


def layers_of(lib):
    rows = LAYER_ROW.findall((lib / "README.md").read_text())
    return [name for name in rows if name not in ("layer", "product")]


def target_layer(source, quoted, public):
    if public or quoted.startswith("wherry/"):
        return "include"
    if source.parts[0] == "include":  # public headers include each other by relative name
        relative = "/" not in quoted or quoted.startswith(("detail/", "nvtx3/", "../"))
        return "include" if relative else quoted.split("/")[0]
    return quoted.split("/")[0] if "/" in quoted else None


def offences(lib):
    """One line for each violation."""
    order = layers_of(lib)
    if "objects" not in order:
        return ["README.md has no table of layers, or no layer `objects`"]
    rank = {name: number for number, name in enumerate(order)}
    folders = {entry.name for entry in lib.iterdir() if entry.is_dir()}
    found = [f"{name}/ is not in README.md's table" for name in sorted(folders - rank.keys())]
    found += [f"{name}/ of README.md's table does not exist" for name in order
              if name not in folders]

    for path in sorted(lib.rglob("*")):
        if path.suffix not in SOURCES:
            continue
        source = path.relative_to(lib)
        own = source.parts[0]
        text = path.read_text()
        if own in rank and rank[own] < rank["objects"] and own not in WITH_CUDA:
            found += [f"{source}: {name} is CUDA's" for name in
                      CUDA.findall(WORDS.sub("", text)) + CUDA_HEADER.findall(text)]
        for match in INCLUDE.finditer(text):
            quoted, public = match.groups()
            place = f"{source}:{text.count(chr(10), 0, match.start(1 if quoted else 2)) + 1}"
            target = target_layer(source, quoted, public)
            if target is None:
                found.append(f'{place}: "{quoted}" does not name its layer')
            elif target not in rank:
                found.append(f"{place}: {quoted or public} is in no layer")
            elif own == "include" and target != "include":
                found.append(f"{place}: a public header includes {quoted}")
            elif own in rank and rank[target] > rank[own]:
                found.append(f"{place}: {own} includes {quoted or public}, which is above it")
    return found


def check_the_check():
    table = ("| layer | x |\n|---|---|\n| low | a |\n| high | b |\n| include | c |\n"
             "| objects | d |\n")
    cases = [
        ({"low/a.h": "", "high/b.h": '#include "low/a.h"\n#include <vector>\n'}, 0),
        ({"low/a.h": '#include "high/b.h"\n', "high/b.h": ""}, 1),
        ({"low/a.h": '# include "high/b.h"\n', "high/b.cc": '#include "b.h"\n'}, 2),
        ({"low/a.h": "#include <wherry/x.h>\n", "high/b.h": ""}, 1),
        ({"low/a.h": "", "high/b.h": "",
          "include/wherry/x.h": '#include "low/a.h"\n#include "y.h"\n'}, 1),
        ({"low/a.h": "", "high/b.h": "", "other/c.h": ""}, 1),
        ({"low/a.h": ""}, 1),
        ({"low/a.h": "", "high/b.h": "", "objects/c.h": "CUresult f();\n"}, 0),
        ({"low/a.h": 'f("cuInit"); // cuInit\n', "high/b.h": "", "objects/c.h": ""}, 0),
        ({"low/a.h": "CUresult f();\n", "high/b.h": "cuInit(0)\n", "objects/c.h": ""}, 2),
        ({"low/a.h": "", "high/b.h": "#include <cuda.h>\n", "objects/c.h": ""}, 1),
    ]
    for files, expected in cases:
        with tempfile.TemporaryDirectory() as folder:
            lib = pathlib.Path(folder)
            (lib / "README.md").write_text(table)
            (lib / "include").mkdir()
            (lib / "objects").mkdir()
            for name, text in files.items():
                (lib / name).parent.mkdir(parents=True, exist_ok=True)
                (lib / name).write_text(text)
            found = offences(lib)
            if len(found) != expected:
                sys.exit(f"the check is wrong: {files} gave {found}, "
                         f"expected {expected} offence(s)")


def main():
    check_the_check()
    lib = pathlib.Path(sys.argv[1])
    found = offences(lib)
    print("\n".join(found) or f"{' < '.join(layers_of(lib))}: every include goes downward")
    sys.exit(1 if found else 0)


main()
