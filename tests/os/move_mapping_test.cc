// Mappings are moved in programs whose mremap() is not the C library's.
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "os/memory/mapping.h"
#include "os/memory/substitute.h"
#include "support/catch.h"

// As UCX 1.13 replaces the function in a program that uses MPI: the new address is dropped.
extern "C" void* mremap(void*, std::size_t, std::size_t, int, ...) noexcept {
  errno = EINVAL;
  return MAP_FAILED;
}

using namespace wherry::impl;

namespace {

constexpr std::size_t bytes = 8192;

char* new_memory(char value) {
  void* start = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(start != MAP_FAILED);
  std::memset(start, value, bytes);
  return static_cast<char*>(start);
}

}  // namespace

TEST_CASE("a mapping moves over another one, whatever mremap() does") {
  char* const from = new_memory(1);
  char* const to = new_memory(2);
  REQUIRE(move_mapping(from, bytes, reinterpret_cast<std::uintptr_t>(to)) == 0);
  CHECK((to[0] == 1 && to[bytes - 1] == 1));
  CHECK(::msync(from, bytes, MS_ASYNC) == -1);  // nothing is mapped there any more
  CHECK(errno == ENOMEM);
  ::munmap(to, bytes);
}

TEST_CASE("a mapping that cannot move stays") {
  char* const from = new_memory(1);
  CHECK(move_mapping(from, bytes, 1) == EINVAL);
  CHECK(from[0] == 1);
  ::munmap(from, bytes);
}

TEST_CASE("a substitute moves, too") {
  char* const place = new_memory(2);
  Substitute zeros(bytes, -1, 0);
  CHECK(zeros.move_to(reinterpret_cast<std::uintptr_t>(place), bytes, Access::write) == 0);
  CHECK(place[0] == 0);
  ::munmap(place, bytes);
}
