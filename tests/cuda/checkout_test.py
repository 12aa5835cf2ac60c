#!/usr/bin/env python3
"""tools/clients and tools/client_policies: what they say of the programs of a checkout.

Usage: checkout_test.py ROOT BUILD WHERRY
"""

import re

from common import Tests, is_turn_of, run_all

# The host writes 4 MiB, the device changes them, the host reads them.
MOVING = """#include <cstdio>
__global__ void add_one(int* values, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) ++values[i];
}
int main(int argc, char** argv) {
  const int count = 1 << 20;
  int* values;
  cudaMallocManaged(&values, count * sizeof(int));
  for (int i = 0; i < count; ++i) values[i] = i;
  add_one<<<1, 32>>>(values, count);
  cudaDeviceSynchronize();
  long wrong = 0;
  for (int i = 0; i < count; ++i) wrong += values[i] != i + 1;
  std::printf("%s|%d words, %ld wrong\\n", argc > 1 ? argv[1] : "none", argc, wrong);
  std::fclose(std::fopen("written", "w"));
}
"""
SAYS = "#include <cstdio>\n#include <unistd.h>\nint main() {{ {} }}\n"
CHECKOUT = {
    "test_args.json": '{"moving": {"args": ["size=3"]}}',
    "Samples/moving/CMakeLists.txt": "add_executable(moving moving.cu)\n",
    "Samples/moving/moving.cu": MOVING,
    "Samples/waived/waived.cu": SAYS.format('std::puts("start\\nThis requires a GPU"); return 2;'),
    "Samples/wrong/wrong.cu": SAYS.format('std::puts("Result = FAIL");'),
    "Samples/crash/crash.cu": SAYS.format('std::fputs("no file\\n", stderr); return 3;'),
    "Samples/blas/blas.cu": "#include <cublas_v2.h>\nint main() {}\n",
    "Samples/broken/broken.cu": "int main() { return undeclared; }\n",
    "Samples/gone/CMakeLists.txt": "add_executable(gone gone.cu)\n",
    "endless/endless.cu": SAYS.format("for (;;) pause();"),
    "two/one.cu": SAYS.format('std::puts("the one");'),
    "two/other.cu": SAYS.format('std::puts("the other");'),
    "made/Makefile": "program: program.cu\n\t$(NVCC) $< -o $@\n",
    "made/program.cu": SAYS.format('std::puts("by make");'),
    "made/run": "./program twice | sed 's/by/built by/'\n",
    "library/part.cu": "__device__ int part;\n",
}
ROWS = {
    "moving": ("passed", "size=3/2 words, 0 wrong"),
    "waived": ("waived", "This requires a GPU"),
    "wrong": ("failed", "Result = FAIL"),
    "crash": ("failed", "status 3: no file"),
    "blas": ("refused", "cuBLAS"),
    "broken": ("failed", "not compiled: "),
    "gone": ("failed", "not compiled: its source is not in the checkout"),
    "endless": ("failed", "no end after 3 s"),
    "two/one": ("passed", "the one"),
    "two/other": ("passed", "the other"),
    "made": ("passed", "built by make"),
}


def rows_of(table):
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines[1:]]


class CheckoutTests(Tests):
    def make_checkout(self):
        self.checkout = self.folder / "checkout"
        for name, text in CHECKOUT.items():
            path = self.checkout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def tool(self, name, *words, expect=0):
        return self.run([self.root / "tools" / name, self.wherry, self.checkout, *words],
                        expect=expect).stdout

    def each_program_has_a_row(self):
        self.make_checkout()
        kept = self.folder / "kept"
        table = self.tool("clients", "--seconds", "3", "--keep", kept, expect=1)
        rows = {name: (outcome, line) for name, outcome, line in rows_of(table)}
        self.check("the programs", set(rows) == set(ROWS), table)
        for name, (outcome, line) in ROWS.items():
            self.check(name, rows[name][0] == outcome and rows[name][1].startswith(line), table)
        self.check("the last line", table.endswith(
            "11 programs: 4 passed, 1 waived, 1 refused, 5 failed\n"), table)
        self.check("what a program said", (kept / "two_other").read_text() == "the other\n")
        files = {str(path.relative_to(self.checkout)) for path in self.checkout.rglob("*")
                 if path.is_file()}
        self.check("the checkout is as it was", files == set(CHECKOUT), files)

    def programs_are_chosen_by_a_pattern(self):
        table = self.tool("clients", "--only", "^two/")
        self.check("two of the programs", [row[0] for row in rows_of(table)]
                   == ["two/one", "two/other"], table)

    def policies_are_compared(self):
        done = self.run([self.root / "tools/client_policies", self.wherry, self.checkout,
                         "--only", "moving"], expect=1)
        self.check("without costs", "calibrate" in done.stderr and "Traceback" not in done.stderr,
                   done.stderr)
        self.run([self.wherry, "calibrate"])
        table = self.tool("client_policies", "--only", "moving|crash")
        row, = rows_of(table)
        self.check("the program", row[0] == "Samples/moving" and len(row) == 6, table)
        by_policy = dict(zip(("uvm", "adaptive", "migrate-always", "first-touch",
                              "remote-always"), row[1:], strict=True))
        for cell in by_policy.values():
            self.check("a cell", re.fullmatch(r"[\d.]+ \([\d.]+\) \d+ \(\d+\)", cell), cell)
        # To the device and back.
        self.check("moves", by_policy["migrate-always"].endswith(" 8 (8)"), table)
        self.check("no moves", by_policy["remote-always"].endswith(" 0 (0)"), table)
        self.check("what is left out", table.endswith("limit: Samples/crash\n"), table)


if is_turn_of("checkout"):
    run_all(CheckoutTests, CheckoutTests.each_program_has_a_row,
            CheckoutTests.programs_are_chosen_by_a_pattern, CheckoutTests.policies_are_compared)
