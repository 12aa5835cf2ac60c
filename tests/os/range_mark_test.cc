#include "os/files/range_mark.h"

#include <sys/mman.h>
#include <unistd.h>

#include "os/files/fd.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/session.h"

namespace wherry::test::range_mark_test {

using namespace wherry::impl;
using wherry::test::Child;
using wherry::test::expect;
using wherry::test::reopen;

namespace {

constexpr std::size_t bytes = 1 << 16;

Fd make_file() {
  Fd file(::memfd_create("marks", MFD_CLOEXEC));
  REQUIRE(::ftruncate(file.get(), bytes) == 0);
  return file;
}

}  // namespace

TEST_CASE("marks of other descriptions are seen where they are, and one's own are not", "[os]") {
  const Fd file = make_file();
  Fd one(reopen(file.get()));
  Fd other(reopen(file.get()));
  CHECK(!is_range_marked(file.get(), 0, bytes));
  REQUIRE(mark_range(one.get(), 4096, 4096) == 0);
  REQUIRE(mark_range(other.get(), 4096, 8192) == 0);
  CHECK(is_range_marked(file.get(), 8191, 1));
  CHECK(!is_range_marked(file.get(), 0, 4096));
  CHECK(is_range_marked(one.get(), 0, bytes));
  other.reset();
  CHECK(!is_range_marked(one.get(), 0, bytes));
  CHECK(is_range_marked(file.get(), 0, bytes));
  one.reset();
  CHECK(!is_range_marked(file.get(), 0, bytes));
}

TEST_CASE("a mark lasts as long as a mapping exists", "[os]") {
  const Fd file = make_file();
  Fd one(reopen(file.get()));
  REQUIRE(mark_range(one.get(), 0, 4096) == 0);
  void* const place = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, one.get(), 0);
  REQUIRE(place != MAP_FAILED);
  one.reset();
  CHECK(is_range_marked(file.get(), 0, 4096));
  ::munmap(place, 4096);
  CHECK(!is_range_marked(file.get(), 0, 4096));
}

TEST_CASE("the mark of a process that is killed is removed", "[os]") {
  const Fd file = make_file();
  {
    Child child([&] {
      const Fd own(reopen(file.get()));
      expect(mark_range(own.get(), 0, 100) == 0, "cannot mark");
      expect(::write(STDOUT_FILENO, "marked\n", 7) == 7, "cannot write");
      ::pause();
    });
    REQUIRE(child.read_line() == "marked");
    CHECK(is_range_marked(file.get(), 0, 1));
  }
  CHECK(!is_range_marked(file.get(), 0, 1));
}

}  // namespace wherry::test::range_mark_test
