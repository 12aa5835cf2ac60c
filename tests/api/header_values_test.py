#!/usr/bin/env python3
"""Wherry's cuda.h and cuda_runtime_api.h agree with the CUDA toolkit's: values, layouts, source
names, signatures, exported symbols.

Skipped where no toolkit with a CUDA 13 cuda.h is installed ($CUDA_HOME, /usr/local/cuda).

Usage: header_values_test.py LIB LIBRARY
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
OUR_VERSION = 13000
PER_THREAD = "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"
SCALARS = ["CUdeviceptr", "CUdevice", "CUcontext", "CUstream", "CUevent", "CUgreenCtx", "CUhostFn",
           "CUstreamCallback",
           "cuuint32_t", "cuuint64_t"]
BOX_FIELDS = [side + name for side in ("src", "dst") for name in (
    "XInBytes", "Y", "Z", "LOD", "MemoryType", "Host", "Device", "Array", "Pitch", "Height")] + [
        "WidthInBytes", "Height", "Depth"]
LAYOUTS = {  # struct: its fields
    "CUuuid": ["bytes"],
    "CUmemLocation": ["type", "id"],
    "CUDA_ARRAY_DESCRIPTOR": ["Width", "Height", "Format", "NumChannels"],
    "CUDA_ARRAY3D_DESCRIPTOR": ["Width", "Height", "Depth", "Format", "NumChannels", "Flags"],
    "CUDA_MEMCPY2D": [side + name for side in ("src", "dst") for name in (
        "XInBytes", "Y", "MemoryType", "Host", "Device", "Array", "Pitch")]
    + ["WidthInBytes", "Height"],
    "CUDA_MEMCPY3D": BOX_FIELDS,
    "CUDA_MEMCPY3D_PEER": BOX_FIELDS + ["srcContext", "dstContext"],
    "CUexecAffinityParam": ["type", "param", "param.smCount", "param.smCount.val"],
    "CUctxCigParam": ["sharedDataType", "sharedData"],
    "CUctxCreateParams": ["execAffinityParams", "numExecAffinityParams", "cigParams"],
    "CUlaunchAttribute": ["id", "pad", "value", "value.cooperative", "value.priority",
                          "value.clusterDim"],
    "CUlaunchConfig": ["gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ",
                       "sharedMemBytes",
                       "hStream", "attrs", "numAttrs"],
}
SCALARS = ["CUdeviceptr", "CUdevice", "CUcontext", "CUstream", "CUevent", "CUgreenCtx", "CUhostFn",
           "CUstreamCallback",
           "cuuint32_t", "cuuint64_t"]
PARMS_FIELDS = ["srcArray", "srcPos", "srcPtr", "dstArray", "dstPos", "dstPtr", "extent"]
RUNTIME_LAYOUTS = {
    "struct cudaMemLocation": ["type", "id"],
    "struct cudaPitchedPtr": ["ptr", "pitch", "xsize", "ysize"],
    "struct cudaPos": ["x", "y", "z"],
    "struct cudaExtent": ["width", "height", "depth"],
    "struct cudaMemcpy3DParms": [*PARMS_FIELDS, "kind"],
    "struct cudaMemcpy3DPeerParms": [*PARMS_FIELDS, "srcDevice", "dstDevice"],
}
RUNTIME_SCALARS = ["cudaError_t", "enum cudaDeviceAttr", "enum cudaMemoryAdvise",
                   "enum cudaMemRangeAttribute", "cudaStream_t", "cudaEvent_t", "cudaHostFn_t",
                   "cudaStreamCallback_t"]
# Only in Wherry's headers: CUDA 13 has no such name.
OWN_MACROS = {"WHERRY_CUDA_API"}
# docs/decisions/drop-in.md explains why Wherry does not have them.
LEFT_OUT = {("cuCtxGetDevice", 13000, ""), ("cuCtxSynchronize", 13000, "")}
# Only in Wherry's headers: CUDA 13 has no such names.
OWN_MACRO = "WHERRY_"
GUARD = re.compile(r"WHERRY_\w+_H")
OWN_FUNCTIONS = {"cudaMemAdvise_v2", "cudaMemPrefetchAsync_v2"}


def find_toolkit():
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        header = pathlib.Path(home or "/nonexistent", "include/cuda.h")
        if header.exists() and f"#define CUDA_VERSION {OUR_VERSION}" in header.read_text():
            return header.parent.parent
    return None


def cc(*arguments, source=""):
    return subprocess.run(
        ["cc", "-x", "c", *arguments, "-"], input=source, capture_output=True, text=True)


def matched_braces(text):
    """The text between the brace at the start and its match, and the text after it."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return text[1:place], text[place + 1:]
    raise ValueError(text)


def fields_of(body):
    names = []
    while match := re.search(r"[;{]", body):
        before, rest = body[:match.start()], body[match.end():]
        inside = []
        if match.group() == "{":
            inner, rest = matched_braces("{" + rest)
            inside = fields_of(inner)
            before, rest = rest.split(";", 1)
        own = re.search(r"(?:\(\*(\w+)\)\s*\(.*|(\w+))\s*(?:\[[^\]]*\]\s*)*$", before.strip(),
                        re.DOTALL)
        name = own and (own.group(1) or own.group(2))
        names += ([name] if name else []) + [f"{name}.{each}" if name else each for each in inside]
        body = rest
    return names


class Header:
    """A cuda.h or cuda_runtime_api.h, as the compiler sees it."""

    def __init__(self, folder, name="cuda.h"):
        self.include = ["-isystem", str(folder)]
        self.line = f"#include <{name}>\n"

    def preprocess(self, *flags, source=""):
        run = cc("-E", "-P", *flags, *self.include, source=self.line + source)
        assert run.returncode == 0, run.stderr
        return run.stdout

    def macros(self, *flags):
        """Object-like macros that this header defines: name -> replacement."""
        run = cc("-E", "-dM", *flags, *self.include, source=self.line)
        base = cc("-E", "-dM", *flags,
                  source="#include <stdlib.h>\n#include <stddef.h>\n#include <stdint.h>\n")
        names = lambda text: dict(
            re.fullmatch(r"#define (\w+) ?(.*)", line).groups()
            for line in text.splitlines() if re.fullmatch(r"#define \w+( .*)?", line))
        known = names(base.stdout)
        return {name: value for name, value in names(run.stdout).items() if name not in known}

    def enumerators(self, pattern=r"C[UI][A-Z0-9_]*_\w+"):
        return re.findall(rf"\b({pattern})\s*(?:=|,|\n|\}})", "\n".join(
            re.findall(r"enum\s+\w+\s*\{(.*?)\}", self.preprocess(), re.DOTALL)) + "\n")

    def layouts(self, pattern=r"CU\w+"):
        """Each struct with fields whose name matches: its name -> the fields. Fields of structs
        and unions inside it are "outer.inner"."""
        text = self.preprocess()
        found = {}
        struct = r"(typedef\s+)?struct\s*(\w*)\s*(?=\{)(.*?)(?=\ntypedef|\nstruct|\nenum|\Z)"
        for typedef, tag, rest in re.findall(struct, text, re.DOTALL):
            body, after = matched_braces(rest)
            name = re.match(r"\s*(\w+)", after) if typedef else None
            spelled = name.group(1) if name else f"struct {tag}"
            if re.fullmatch(pattern, spelled):
                found[spelled] = fields_of(body)
        return found

    def expand(self, names, *flags):
        """The symbol that each source name stands for."""
        marked = "".join(f"@{name}\n" for name in names).replace("@", "name: ")
        text = self.preprocess(*flags, source=marked)
        return dict(zip(names, re.findall(r"^name: (.*)$", text, re.MULTILINE)))

    def evaluate(self, expressions):
        """Compiles and runs a program that prints each expression: expression -> value."""
        lines = "".join(f'  printf("%lld\\n", (long long)({e}));\n' for e in expressions)
        program = (f"{self.line}#include <stddef.h>\n#include <stdio.h>\n"
                   f"int main(void) {{\n{lines}}}\n")
        with tempfile.TemporaryDirectory() as folder:
            run = cc(*self.include, "-o", f"{folder}/values", source=program)
            assert run.returncode == 0, run.stderr
            printed = subprocess.run([f"{folder}/values"], capture_output=True, text=True,
                                     check=True)
        return dict(zip(expressions, printed.stdout.split()))


def compare(what, ours, theirs, problems):
    for name, value in ours.items():
        if theirs.get(name) != value:
            problems.append(f"{what} {name}: {value} here, {theirs.get(name)} in the toolkit")
    print(f"{len(ours)} {what}s compared")


def prototypes(text):
    """Function declarations of preprocessed C."""
    return [re.sub(r"\s+", " ", found) for found in
            re.findall(r"^(?:CUresult|cudaError_t|const char\s*\*)\s+cu\w+\s*\([^;{]*\)\s*;", text,
                       re.MULTILINE)]


def check_signatures(what, ours, toolkit, problems, *flags):
    """The toolkit's header followed by Wherry's declarations must compile: C refuses a second
    declaration with another type. Taking each address first refuses names that the toolkit does
    not declare."""
    names = [re.search(r"(cu\w+)\s*\(", line).group(1) for line in ours]
    uses = "".join(f"  (void)&{name};\n" for name in names)
    # Without the macros: Wherry's declarations use the symbols' own names.
    undefine = "".join(f"#undef {name}\n" for name in names)
    source = (f"{toolkit.line}#include <cudaProfiler.h>\n#include <cuda_profiler_api.h>\n{undefine}"
              "#ifndef WHERRY_TEST_V1\n#define WHERRY_TEST_V1\n"
              "typedef unsigned int CUdeviceptr_v1;\n#endif\n"
              f"void use(void);\nvoid use(void) {{\n{uses}}}\n" + "\n".join(ours) + "\n")
    run = cc("-fsyntax-only", "-Werror", "-Wno-deprecated-declarations", *flags, *toolkit.include,
             source=source)
    if run.returncode != 0:
        problems.append(f"{what}:\n{run.stderr}")
    print(f"{len(ours)} {what} compared")


def values(enumerators, layouts, scalars):
    """The expressions to compare for a header: kind -> expressions."""
    sizes = [f"sizeof({name})" for name in [*layouts, *scalars]]
    sizes += [f"sizeof((({name}*)0)->{field})" for name, fields in layouts.items()
              for field in fields]
    offsets = [f"offsetof({name}, {field})" for name, fields in layouts.items() for field in fields]
    return {"enumerator": enumerators, "size": sizes, "offset": offsets}


def check_runtime(lib, home, problems):
    name = "cuda_runtime_api.h"
    ours, theirs = Header(lib / "include/wherry", name), Header(home / "include", name)
    enumerators = ours.enumerators(r"cuda[A-Z]\w+")
    assert len(enumerators) > 250, len(enumerators)
    for what, names in values(enumerators, ours.layouts(r"(struct )?cuda\w+"),
                              RUNTIME_SCALARS).items():
        compare(f"runtime {what}", ours.evaluate(names), theirs.evaluate(names), problems)
    for flags in ([], [PER_THREAD]):
        names = [name for name in ours.macros(*flags) if re.match("cuda[A-Z]|CUDART", name)]
        compare("runtime source name", ours.expand(names, *flags), theirs.expand(names, *flags),
                problems)
        declared = [line for line in prototypes(ours.preprocess(*flags))
                    if re.search(r"\bcuda[A-Z]", line)
                    and not OWN_FUNCTIONS & set(re.findall(r"\w+", line))]
        check_signatures("runtime signatures", declared, theirs, problems, *flags)


def check_lists(api, home, problems):
    """The names, versions and forms of functions are exactly those with types in cudaTypedefs.h."""
    theirs = set()
    for name, version, own in re.findall(r"\*\s*PFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\)",
                                         (home / "include/cudaTypedefs.h").read_text()):
        theirs.add((name, int(version), own))
    ours = set()
    for line in (api / "driver_functions.txt").read_text().splitlines():
        if not line.startswith("#"):
            name, version, _, *own = line.split()
            ours.add((name, int(version), ""))
            if own:
                ours.add((name, int(own[1]), f"_{own[0]}"))
    for entry in sorted(theirs - ours - LEFT_OUT):
        problems.append(f"driver_functions.txt lacks {entry}")
    names = {name for name, _, _ in theirs}
    for entry in sorted(entry for entry in ours - theirs if entry[0] in names):
        problems.append(f"driver_functions.txt has {entry}, which the toolkit does not have")
    print(f"{len(ours)} forms of functions compared")


def exported(library):
    listing = subprocess.run(["nm", "--dynamic", "--defined-only", library],
                             capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}


def main():
    lib, library = pathlib.Path(sys.argv[1]), sys.argv[2]
    home = find_toolkit()
    if home is None:
        print("SKIP: no CUDA 13.0 toolkit here")
        sys.exit(SKIPPED)
    ours, theirs = Header(lib / "include/wherry"), Header(home / "include")
    problems = []

    enumerators = ours.enumerators()
    assert len(enumerators) > 300, len(enumerators)
    for what, names in values(enumerators, ours.layouts(), SCALARS).items():
        compare(what, ours.evaluate(names), theirs.evaluate(names), problems)

    for flags in ([], [PER_THREAD]):
        names = [name for name in ours.macros(*flags) if not name.startswith(OWN_MACRO)]
        names = [name for name in ours.macros(*flags)
                 if name not in OWN_MACROS and not GUARD.fullmatch(name)]
        compare("source name", ours.expand(names, *flags), theirs.expand(names, *flags), problems)
        check_signatures("signatures", prototypes(ours.preprocess(*flags)), theirs, problems,
                         *flags)

    check_runtime(lib, home, problems)

    # Both the library and the toolkit declare old symbols for internal use.
    internal = cc("-E", "-P", "-I", str(lib), "-I", str(lib / "include"),
                  source='#include "api/exports.h"\n')
    assert internal.returncode == 0, internal.stderr
    driver_functions = [line for line in prototypes(internal.stdout) if line.startswith("CUresult")]
    check_signatures("old signatures", driver_functions, theirs, problems,
                     "-D__CUDA_API_VERSION_INTERNAL")

    check_lists(lib / "api", home, problems)

    driver = home / "lib64/stubs/libcuda.so"
    if driver.exists():
        have = {name for name in exported(library) if re.match("cu[A-Z]", name)}
        for name in sorted(have - exported(driver)):
            problems.append(f"exported by Wherry, but not by a real libcuda: {name}")
        print(f"{len(have)} exported symbols compared")

    runtime = home / "lib64/libcudart.so.13"
    if runtime.exists():
        rows = [line.split()
                for line in (lib / "api/runtime_functions.txt").read_text().splitlines()
                if not line.startswith("#")]
        listed = {symbol for name, *own in rows
                  for symbol in [name, *(f"{name}_{ending}" for ending in own)]}
        for name in sorted(listed ^ {name for name in exported(runtime)
                                     if re.match("_*cuda", name)}):
            problems.append(f"runtime_functions.txt and a real libcudart do not both have {name}")
        print(f"{len(listed)} symbols of the runtime compared")

    print("\n".join(problems))
    sys.exit(1 if problems else 0)


main()
