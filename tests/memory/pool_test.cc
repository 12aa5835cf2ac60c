#include "memory/pool.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "os/files/file_io.h"
#include "os/process/permissions.h"
#include "support/descriptors.h"

using namespace wherry::impl;
using wherry::test::allocated_bytes;

TEST_CASE("a pool's file is filled where it has no pages, and only there") {
  SparsePoolFile pool("pool-test", 4 * block_size, HugePages::if_possible,
                      permissions().userfaultfd());
  std::vector<std::byte> data(2 * page_size, std::byte{7});
  REQUIRE(pool.fill({{5}, 2}, data.data()));
  CHECK(*pool.alias({5}) == std::byte{7});
  CHECK(allocated_bytes(pool.file().fd()) == 2 * page_size);
  CHECK(pool.fill({{6}, 1}, data.data()).status == OpStatus::occupied);
  REQUIRE(pool.fill_zero({{7}, 1}));
  CHECK(*pool.alias({7}) == std::byte{0});
  REQUIRE(pool.punch({{5}, 1}) == 0);
  REQUIRE(pool.fill_zero({{5}, 1}));
  CHECK(*pool.alias({5}) == std::byte{0});
  CHECK(allocated_bytes(pool.file().fd()) == 3 * page_size);
}

TEST_CASE("a punched part of a referenced huge page becomes zeros, and can be freed later") {
  SparsePoolFile pool("pool-test", 4 * block_size, HugePages::if_possible,
                      permissions().userfaultfd());
  if (!pool.maps_huge_pages()) {
    WARN("skipped: pools have no huge pages here");
    return;
  }
  const std::vector<std::byte> data(block_size, std::byte{7});
  REQUIRE(write_at(pool.file().fd(), 0, data) == int{block_size});
  int pipe[2];
  REQUIRE(::pipe(pipe) == 0);
  // The pipe holds a reference to the huge page.
  const iovec held{const_cast<std::byte*>(pool.alias({100})), page_size};
  REQUIRE(::vmsplice(pipe[1], &held, 1, 0) == static_cast<ssize_t>(page_size));

  REQUIRE(pool.punch({{5}, 2}) == 0);
  CHECK(pool.file().first_data(5 * page_size, 7 * page_size) == 5 * page_size);
  for (const PageIndex page : {PageIndex{5}, PageIndex{6}})
    CHECK(*pool.alias(page) == std::byte{0});
  CHECK(*pool.alias({7}) == std::byte{7});
  CHECK(pool.fill({{5}, 1}, data.data()).status == OpStatus::occupied);

  // The reference ends while the punch waits.
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::microseconds(500));
    ::close(pipe[0]);
    ::close(pipe[1]);
  });
  REQUIRE(pool.punch({{5}, 2}) == 0);
  holder.join();
  REQUIRE(pool.punch({{5}, 2}) == 0);  // if the thread closed the pipe too late for the first one
  CHECK(pool.file().first_data(5 * page_size, 7 * page_size) == 7 * page_size);
  CHECK(pool.fill({{5}, 1}, data.data()));
  CHECK(*pool.alias({5}) == std::byte{7});
}
