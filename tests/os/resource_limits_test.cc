#include "os/process/resource_limits.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

#include "os/files/memory_file.h"
#include "os/memory/mapping.h"
#include "support/catch.h"

namespace wherry::test::resource_limits_test {

using namespace wherry::impl;

namespace {

// Sets a soft limit of this process during its lifetime.
class SoftLimit {
 public:
  SoftLimit(__rlimit_resource kind, rlim_t value) : kind_(kind) {
    REQUIRE(::getrlimit(kind_, &before_) == 0);
    const rlimit lower{value, before_.rlim_max};
    REQUIRE(::setrlimit(kind_, &lower) == 0);
  }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;
  ~SoftLimit() { ::setrlimit(kind_, &before_); }

 private:
  const __rlimit_resource kind_;
  rlimit before_{};
};

}  // namespace

TEST_CASE("a file beyond RLIMIT_FSIZE is refused with EFBIG and without a signal") {
  const MemoryFile file("limits-test", 4096, HugePages::never);
  const SoftLimit limit(RLIMIT_FSIZE, 1 << 20);
  CHECK(file_size_limit() == 1 << 20);
  CHECK(set_file_size(file.fd(), 1 << 20) == 0);
  CHECK(set_file_size(file.fd(), (1 << 20) + 1) == EFBIG);
  CHECK_THROWS_AS(MemoryFile("limits-test", 2 << 20, HugePages::never), std::system_error);
}

TEST_CASE("a limit in force is named with the shell's option and its value") {
  const SoftLimit limit(RLIMIT_FSIZE, 1 << 20);
  CHECK(limits_in_force().find("RLIMIT_FSIZE (ulimit -f) is 1M") != std::string::npos);
}

TEST_CASE("the address space in use is what Linux counts") {
  const std::uint64_t before = address_space_in_use();
  const Mapping reserved = Mapping::reserve(std::size_t{1} << 30, 4096);
  CHECK(address_space_in_use() - before >= std::size_t{1} << 30);
}

}  // namespace wherry::test::resource_limits_test
