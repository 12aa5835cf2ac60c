// With the mprotect and sigbus traps a thread of the host resolves its own fault in the signal
// handler, unless the program gave advice. The test looks whether the library's handler threads,
// which resolve the other faults, use CPU time. (They need not sleep between two faults.)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/handler_time.h"
#include "support/session.h"

namespace wherry::test::resolve_in_handler_test {
namespace {

constexpr std::size_t region_bytes = 64 << 10;
constexpr std::size_t faults = 256;
// A handler thread that resolves a fault uses more CPU time than this; one that sleeps uses none.
constexpr std::uint64_t resolution_ns = 1000;
constexpr CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};

// The kinds of traps with signals in the host that Linux permits here.
std::vector<const char*> traps() {
  if (why_missing("userfaultfd")) return {"mprotect"};
  return {"mprotect", "sigbus"};
}

// Calls `before` with some memory, then touches every region of other memory: one fault each.
// Returns how much CPU time the handler threads used for each fault. To create the pages of a
// region takes some microseconds. A handler that finds no fault sleeps.
std::uint64_t handler_ns_a_fault_after(const char* trap,
                                       void (*before)(const Session&, const Managed<char>&)) {
  const Outcome outcome = in_fresh_process([=] {
    ::setenv("WHERRY_TRAP", trap, 1);
    const Session session("capacity=8M,workers=1");
    const Managed<char> other(region_bytes);
    const Managed<char> touched(faults * region_bytes);
    before(session, other);
    // A handler looks for the next fault for a while before it sleeps.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::uint64_t start = handler_threads_ns();
    for (std::size_t at = 0; at < touched.bytes(); at += region_bytes) touched[at] = 1;
    std::printf("%llu\n", static_cast<unsigned long long>(handler_threads_ns() - start) / faults);
    std::fflush(stdout);
  });
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
  return std::stoull(outcome.out);
}

}  // namespace

TEST_CASE("without advice a thread resolves its own faults", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_ns_a_fault_after(trap, [](const Session&, const Managed<char>&) {}) <
        resolution_ns);
}

TEST_CASE("after a prefetch, which is no advice, a thread still resolves its own faults",
          "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_ns_a_fault_after(trap, [](const Session& session, const Managed<char>& memory) {
          const auto start = reinterpret_cast<CUdeviceptr>(memory.data());
          WHERRY_TRY(cuMemPrefetchAsync(start, memory.bytes(), device, 0, session.stream(0)));
          WHERRY_TRY(session.wait(0));
          // The destination is stored nevertheless.
          int last = -2;
          WHERRY_TRY(cuMemRangeGetAttribute(&last, sizeof last,
                                            CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, start,
                                            memory.bytes()));
          expect(last == 0, "the destination is not stored");
        }) < resolution_ns);
}

TEST_CASE("after all advice is unset a thread resolves its own faults", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_ns_a_fault_after(trap, [](const Session&, const Managed<char>& memory) {
          const auto start = reinterpret_cast<CUdeviceptr>(memory.data());
          for (const CUmem_advise advice :
               {CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY})
            WHERRY_TRY(cuMemAdvise(start, memory.bytes(), advice, device));
        }) < resolution_ns);
}

TEST_CASE("after advice the handler threads resolve all faults", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CHECK(handler_ns_a_fault_after(trap, [](const Session&, const Managed<char>& memory) {
          WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(memory.data()), memory.bytes(),
                                 CU_MEM_ADVISE_SET_READ_MOSTLY, device));
        }) > resolution_ns);
}

}  // namespace wherry::test::resolve_in_handler_test
