#include "os/memory/published_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::impl::published_memory_test {

TEST_CASE("a forked process sees changes of published memory, and cannot write to it") {
  constexpr std::size_t bytes = 8192;
  const PublishedMemory memory("wherry-test", bytes);
  auto* const written = static_cast<volatile int*>(memory.data());
  auto* const shown = static_cast<const volatile int*>(memory.shown());
  written[0] = 1;
  REQUIRE(shown[0] == 1);
  test::Child child([&] {
    while (shown[1] == 0) continue;
    test::expect(shown[0] == 2, "the change is not visible");
    void* const start = const_cast<void*>(memory.shown());
    test::expect(::mprotect(start, bytes, PROT_READ | PROT_WRITE) != 0 && errno == EACCES,
                 "the memory can be made writable");
    unsigned char there = 0;
    test::expect(::mincore(memory.data(), 4096, &there) != 0 && errno == ENOMEM,
                 "the publisher's own mapping exists in the child");
  });
  written[0] = 2;
  written[1] = 1;
  const test::Outcome outcome = child.wait();
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::impl::published_memory_test
