// Which advice and policies for the program's own memory are kept when other memory takes its
// place.
#include "pages/system_memory_books.h"

#include <vector>

#include "support/catch.h"

namespace wherry::test::system_memory_books_test {

using namespace wherry::impl;

namespace {

using Kind = AdviceChange::Kind;

constexpr PageSpan span(std::uint64_t first, std::uint64_t count) {
  return {{first}, count};
}

MemoryIdentity anonymous() {
  MemoryIdentity identity;
  identity.kind = MemoryIdentity::Kind::anonymous;
  return identity;
}
MemoryIdentity file(std::uint64_t inode) {
  MemoryIdentity identity;
  identity.kind = MemoryIdentity::Kind::file;
  identity.inode = inode;
  return identity;
}

bool is_read_mostly(const SystemMemoryBooks& books, std::uint64_t page) {
  return books.advice().at({page}).value.read_mostly;
}

}  // namespace

TEST_CASE("what was said is kept for the same memory, also if its mappings were split or merged") {
  SystemMemoryBooks books;
  books.advise(std::vector{SystemPart{span(10, 10), anonymous()}}, {Kind::set_read_mostly, {}});
  books.note_prefetch(std::vector{SystemPart{span(12, 4), anonymous()}}, Location::device(1));
  books.keep(span(0, 100), std::vector{SystemPart{span(10, 3), anonymous()},
                                       SystemPart{span(13, 80), anonymous()}});
  for (std::uint64_t page = 0; page < 30; ++page) {
    CAPTURE(page);
    CHECK(is_read_mostly(books, page) == (page >= 10 && page < 20));
    CHECK(books.last_prefetches().at({page}).value ==
          (page >= 12 && page < 16 ? Location::device(1) : Location{}));
  }
}

TEST_CASE("what was said of other memory is forgotten, page by page") {
  SystemMemoryBooks books;
  books.advise(std::vector{SystemPart{span(10, 5), anonymous()}, SystemPart{span(15, 5), file(7)}},
               {Kind::set_read_mostly, {}});
  books.policies().set(span(10, 10), {GivenPolicy::Kind::mark, {}});
  // Pages 10 and 11 are gone, page 12 is a file's, page 18 is another file's.
  books.keep(span(10, 10),
             std::vector{SystemPart{span(12, 1), file(7)}, SystemPart{span(13, 2), anonymous()},
                         SystemPart{span(15, 3), file(7)}, SystemPart{span(18, 1), file(8)},
                         SystemPart{span(19, 1), file(7)}});
  for (std::uint64_t page = 10; page < 20; ++page) {
    CAPTURE(page);
    const bool is_kept =
        page == 13 || page == 14 || page == 15 || page == 16 || page == 17 || page == 19;
    CHECK(is_read_mostly(books, page) == is_kept);
    CHECK((books.policies().at({page}).value.kind == GivenPolicy::Kind::mark) == is_kept);
    CHECK((books.identities().at({page}).value == MemoryIdentity{}) != is_kept);
  }
}

TEST_CASE("only the span that was looked at is compared") {
  SystemMemoryBooks books;
  books.advise(std::vector{SystemPart{span(10, 10), anonymous()}}, {Kind::set_read_mostly, {}});
  books.keep(span(0, 12), {});
  CHECK_FALSE(is_read_mostly(books, 11));
  CHECK(is_read_mostly(books, 12));
}

}  // namespace wherry::test::system_memory_books_test
