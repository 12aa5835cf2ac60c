#include "programs.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "program_path.h"

namespace wherry::tool {
namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, std::string_view text) {
  std::ofstream file(path);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path.string());
}

// 200 MB of lines: a random key, then words of a small vocabulary.
void write_lines(const fs::path& folder) {
  constexpr std::size_t bytes = 200'000'000;
  constexpr std::string_view words[] = {"page", "fault",  "memory", "device",
                                        "host", "policy", "move",   "copy"};
  std::ofstream file(folder / "lines");
  std::uint64_t state = 1;
  std::string line;
  for (std::size_t written = 0; written < bytes; written += line.size()) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    line = fmt::format("{:010x}", state >> 24);
    for (int i = 0; i < 8; ++i) {
      line += ' ';
      line += words[state >> (61 - 3 * i) & 7];
    }
    line += '\n';
    file << line;
  }
  if (!file.flush()) throw std::runtime_error("cannot write " + (folder / "lines").string());
}

void write_numpy(const fs::path& folder) {
  write(folder / "program.py", R"(import hashlib
import numpy

def show(name, array):
    print(name, hashlib.sha256(array.tobytes()).hexdigest())

generator = numpy.random.default_rng(1)
show("product", generator.random((1000, 1000)) @ generator.random((1000, 1000)))
for _ in range(4):
    show("fft", numpy.fft.fft(generator.random(1 << 21)))
    show("fft2", numpy.fft.ifft2(generator.random((1024, 1024))))
show("sort", numpy.sort(generator.random(1 << 22)))
)");
}

void write_sql(const fs::path& folder) {
  write(folder / "program.sql", R"(PRAGMA temp_store=memory;
CREATE TABLE t(id INTEGER PRIMARY KEY, a INTEGER, b TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500000)
  INSERT INTO t SELECT i, (i * 7919) % 1000003, 'row number ' || ((i * 104729) % 999983) FROM n;
CREATE INDEX by_a ON t(a);
CREATE INDEX by_b ON t(b);
SELECT count(*), sum(a), min(b), max(b) FROM t;
SELECT sum(u.a) FROM t JOIN t AS u ON u.a = t.id WHERE t.id < 200000;
SELECT a % 1000 AS m, count(*) FROM t GROUP BY m ORDER BY count(*) DESC, m LIMIT 5;
UPDATE t SET b = b || '!' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 5 = 0;
SELECT count(*), sum(length(b)) FROM t;
PRAGMA integrity_check;
)");
}

// Writes a C++ file that instantiates containers and algorithms for twelve types.
void write_templates(const fs::path& folder) {
  std::string text =
      "#include <algorithm>\n#include <map>\n#include <regex>\n#include <string>\n"
      "#include <unordered_map>\n#include <vector>\n"
      "template <int N> struct Key { long v[N % 5 + 1]; bool operator<(const Key& o) const "
      "{ return v[0] < o.v[0]; } };\n"
      "template <int N> long work(const std::string& s) {\n"
      "  std::map<Key<N>, std::vector<Key<N>>> m;\n"
      "  std::vector<Key<N>> k(s.size() + N);\n"
      "  std::sort(k.begin(), k.end());\n"
      "  for (const auto& one : k) m[one].push_back(one);\n"
      "  std::stable_sort(k.begin(), k.end());\n"
      "  long sum = 0;\n"
      "  for (const auto& [a, b] : m) sum += a.v[0] + static_cast<long>(b.size());\n"
      "  return sum;\n}\n"
      "bool matches(const std::string& s) { return std::regex_match(s, std::regex(\"a+b*\")); }\n";
  std::string sum = "long all(const std::string& s) {\n  long sum = matches(s);\n";
  for (int i = 0; i < 12; ++i) sum += fmt::format("  sum += work<{}>(s);\n", i);
  write(folder / "program.cc", text + sum + "  return sum;\n}\n");
}

void write_redis_client(const fs::path& folder) {
  write(folder / "client.py", R"(import os
import subprocess
import sys
import time

def redis(*words):
    done = subprocess.run(["redis-cli", "-s", "socket", *words], capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip()

for _ in range(1000):
    if redis("PING") == "PONG":
        break
    time.sleep(0.01)
print("filled:", redis("DEBUG", "POPULATE", "300000", "key", "200"))
print("big:", redis("SETRANGE", "big", "33554432", "end"))
before = redis("DEBUG", "DIGEST")
print("digest:", before)
print("save:", redis("BGSAVE"))
bench = subprocess.run(["redis-benchmark", "-s", "socket", "-t", "set,get,lpush,lrange_100", "-n",
                        "30000", "-q"], capture_output=True, text=True)
print("benchmark:", bench.returncode)
while "rdb_bgsave_in_progress:1" in redis("INFO", "persistence"):
    time.sleep(0.02)
print("saved:", "rdb_last_bgsave_status:ok" in redis("INFO", "persistence"))
# What the child saved is what the parent had at the time.
print("loaded:", redis("DEBUG", "RELOAD", "NOSAVE"), redis("DEBUG", "DIGEST") == before)
redis("SHUTDOWN", "NOSAVE")
os.remove("dump.rdb")
sys.exit(bench.returncode)
)");
}

void write_melt(const fs::path& folder) {
  write(folder / "in.melt", R"(units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 30 0 30 0 30
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 25
run 50
write_dump all custom results id x y z vx vy vz modify sort id format float %.17g
)");
}

void write_hpcc(const fs::path& folder) {
  write(folder / "hpccinf.txt", R"(HPLinpack benchmark input file
Wherry
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
1            # of problems sizes (N)
1600         Ns
1            # of NBs
80           NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
2            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
##### This line (no. 32) is ignored (it serves as a separator). ######
0            Number of additional problem sizes for PTRANS
1200         values of N
0            number of additional blocking sizes for PTRANS
40           values of NB
)");
}

void write_nothing(const fs::path&) {}

}  // namespace

std::span<const Program> programs() {
  // Never destroyed.
  static const auto& table = *new std::vector<Program>{
      {"xz",
       "Compress 200 MB with two threads",
       "xz-utils",
       {"xz"},
       write_lines,
       {"xz", "-T2", "-1", "-c", "lines"}},
      {"sort",
       "Sort 200 MB of lines with two threads",
       "coreutils",
       {"sort"},
       write_lines,
       {"sort", "--parallel=2", "-S", "300M", "-T", ".", "lines"}},
      {"numpy",
       "Matrix product, FFT and sort",
       "python3 python3-numpy",
       {"/usr/bin/python3", "/usr/lib/python3/dist-packages/numpy"},
       write_numpy,
       {"/usr/bin/python3", "program.py"}},
      {"sqlite",
       "Fill, index and query a database in memory",
       "sqlite3",
       {"sqlite3"},
       write_sql,
       {"sqlite3", "-batch", "-pagecache", "4096", "50000", ":memory:", ".read program.sql"}},
      {"g++",
       "Compile many template instances with optimization",
       "g++",
       {"g++"},
       write_templates,
       {"g++", "-std=c++20", "-O2", "-c", "program.cc", "-o", "results"},
       {},
       "results"},
      {"openssl",
       "Encrypt and hash blocks of 4 MiB for three seconds",
       "openssl",
       {"openssl"},
       write_nothing,
       {"openssl", "speed", "-seconds", "1", "-bytes", "4194304", "sha256", "sha512",
        "aes-256-cbc"},
       {},
       "stdout",
       true},
      {"stress-ng",
       "Write and verify memory with two processes",
       "stress-ng",
       {"stress-ng"},
       write_nothing,
       {"stress-ng", "--vm", "2", "--vm-bytes", "256M", "--verify", "--vm-ops", "40000"}},
      {"redis",
       "A server of a benchmark, which forks to save",
       "redis-server redis-tools python3",
       {"redis-server", "redis-cli", "redis-benchmark", "python3"},
       write_redis_client,
       {"redis-server", "--port", "0", "--unixsocket", "socket", "--save", "",
        "--enable-debug-command", "local"},
       {"python3", "client.py"}},
      {"lammps",
       "Melt 108000 Lennard-Jones atoms",
       "lammps",
       {"lmp"},
       write_melt,
       {"lmp", "-in", "in.melt", "-log", "none"},
       {},
       "results"},
      {"hpcc",
       "HPL, STREAM, RandomAccess and more with two ranks",
       "hpcc openmpi-bin",
       {"hpcc", "mpirun.openmpi"},
       write_hpcc,
       {"mpirun.openmpi", "--oversubscribe", "-n", "2", "hpcc"},
       {},
       "hpccoutf.txt",
       false,
       {"residual checks", "Validates", "with error", "errors in"}},
  };
  return table;
}

bool is_installed(const Program& program) {
  return std::ranges::all_of(program.needs, [](const std::string& name) {
    const std::string path = find_program(name);
    return !path.empty() && fs::exists(path);
  });
}

}  // namespace wherry::tool
