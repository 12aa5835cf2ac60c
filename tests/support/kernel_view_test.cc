// Tests kernel_view.h with mappings whose permissions are known.
#include "support/kernel_view.h"

#include <sys/mman.h>
#include <unistd.h>

#include "support/catch.h"
#include "support/child.h"

namespace wherry::test::kernel_view_test {
namespace {

constexpr std::size_t page_bytes = 4096;

// One page for each protection, in this order.
constexpr int protections[] = {PROT_READ | PROT_WRITE, PROT_READ, PROT_NONE};

class Pages {
 public:
  Pages()
      : start_(static_cast<std::byte*>(
            ::mmap(nullptr, 3 * page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(start_ != MAP_FAILED);
    for (std::size_t i = 0; i < 3; ++i)
      REQUIRE(::mprotect(start_ + i * page_bytes, page_bytes, protections[i]) == 0);
  }
  ~Pages() { ::munmap(start_, 3 * page_bytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  // The last byte of a page. Page 3 stands for the first page of the address space, which is never
  // mapped.
  const std::byte* end_of(std::size_t page) const {
    return page == 3 ? reinterpret_cast<const std::byte*>(page_bytes - 1)
                     : start_ + (page + 1) * page_bytes - 1;
  }

 private:
  std::byte* const start_;
};

void check_permissions(pid_t process, const Pages& pages) {
  const bool readable[] = {true, true, false, false};
  const bool writable[] = {true, false, false, false};
  for (std::size_t page = 0; page < 4; ++page) {
    CAPTURE(process, page);
    const Permissions found = permissions_of(process, pages.end_of(page));
    CHECK(found.read == readable[page]);
    CHECK(found.write == writable[page]);
  }
}

TEST_CASE("the rights of a mapping are read for this process") {
  check_permissions(::getpid(), Pages{});
}

TEST_CASE("the rights of a mapping are read for another process") {
  const Pages pages;
  const Child child{[] { ::pause(); }};
  check_permissions(child.pid(), pages);
}

TEST_CASE("no userfaultfd tracks a program that has none") {
  CHECK_FALSE(userfaultfd_tracks_memory());
}

}  // namespace
}  // namespace wherry::test::kernel_view_test
