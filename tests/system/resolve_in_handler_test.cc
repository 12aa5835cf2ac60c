// With the mprotect and sigbus traps a thread of the host resolves its own fault in the signal
// handler, unless the program gave advice. The test counts the faults that it passes to the
// library's handler threads: each wakes such a thread, so it is one of their context switches.
#include <dirent.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/capabilities.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test {
namespace {

constexpr std::size_t region_bytes = 64 << 10;
constexpr std::size_t faults = 256;
constexpr CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// How often the handler threads have gone to sleep so far.
std::uint64_t switches_of_handler_threads() {
  constexpr const char* tasks = "/proc/self/task";
  std::uint64_t switches = 0;
  DIR* const folder = ::opendir(tasks);
  expect(folder != nullptr, "cannot read the list of threads");
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string task = std::string(tasks) + "/" + entry->d_name;
    if (!first_line(task + "/comm").starts_with("wherry-fault")) continue;
    std::ifstream status(task + "/status");
    const std::string key = "voluntary_ctxt_switches:";
    for (std::string word; status >> word;)
      if (word == key) {
        std::uint64_t value = 0;
        status >> value;
        switches += value;
      }
  }
  ::closedir(folder);
  return switches;
}

// The kinds of traps with signals in the host that Linux permits here.
std::vector<const char*> traps() {
  if (why_missing("userfaultfd")) return {"mprotect"};
  return {"mprotect", "sigbus"};
}

// Calls `before` with some memory, then touches every region of other memory: one fault each.
// Returns about how many of these faults the handler threads resolved.
std::uint64_t handler_thread_faults_after(const char* trap,
                                          void (*before)(const Session&, const Managed<char>&)) {
  const Outcome outcome = in_fresh_process([=] {
    ::setenv("WHERRY_TRAP", trap, 1);
    const Session session("capacity=8M,workers=1");
    const Managed<char> other(region_bytes);
    const Managed<char> touched(faults * region_bytes);
    before(session, other);
    const std::uint64_t start = switches_of_handler_threads();
    for (std::size_t at = 0; at < touched.bytes(); at += region_bytes) touched[at] = 1;
    std::printf("%llu\n", static_cast<unsigned long long>(switches_of_handler_threads() - start));
    std::fflush(stdout);
  });
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
  return std::stoull(outcome.out);
}

}  // namespace

TEST_CASE("without advice a thread resolves its own faults", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_thread_faults_after(trap, [](const Session&, const Managed<char>&) {}) <
        faults / 4);
}

TEST_CASE("after a prefetch, which is no advice, a thread still resolves its own faults",
          "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_thread_faults_after(trap, [](const Session& session, const Managed<char>& memory) {
          const auto start = reinterpret_cast<CUdeviceptr>(memory.data());
          WHERRY_TRY(cuMemPrefetchAsync(start, memory.bytes(), device, 0, session.stream(0)));
          WHERRY_TRY(session.wait(0));
          // The destination is stored nevertheless.
          int last = -2;
          WHERRY_TRY(cuMemRangeGetAttribute(&last, sizeof last,
                                            CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, start,
                                            memory.bytes()));
          expect(last == 0, "the destination is not stored");
        }) < faults / 4);
}

TEST_CASE("after all advice is unset a thread resolves its own faults", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_thread_faults_after(trap, [](const Session&, const Managed<char>& memory) {
          const auto start = reinterpret_cast<CUdeviceptr>(memory.data());
          for (const CUmem_advise advice :
               {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY})
            WHERRY_TRY(cuMemAdvise(start, memory.bytes(), advice, device));
        }) < faults / 4);
}

TEST_CASE("after advice the handler threads resolve all faults", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_thread_faults_after(trap, [](const Session&, const Managed<char>& memory) {
          WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(memory.data()), memory.bytes(),
                                 CU_MEM_ADVISE_SET_READ_MOSTLY, device));
        }) > faults / 2);
}

}  // namespace wherry::test
