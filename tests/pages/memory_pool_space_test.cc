#include "pages/memory_pool_space.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>

#include "base/page.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::memory_pool_space_test {
namespace {

using namespace wherry::impl;

constexpr std::uintptr_t base = 0x10000000;
constexpr std::size_t slab_pages = 64;

MemoryPoolSpace one_slab() {
  MemoryPoolSpace space;
  space.add({base, slab_pages * page_size});
  return space;
}

TEST_CASE("a pool hands out parts of its slab, from the smallest free range that fits", "[pages]") {
  MemoryPoolSpace space = one_slab();
  const auto a = space.allocate(4 * page_size, 1);
  const auto b = space.allocate(2 * page_size, 1);
  const auto c = space.allocate(4 * page_size, 1);
  REQUIRE((a && b && c));
  CHECK(*a == base);
  space.free(*b);
  space.free(*a);  // leaves six free pages
  CHECK(space.allocate(5 * page_size, 2) == *a);
  CHECK(space.used().now == 9 * page_size);
  CHECK(space.used().high == 10 * page_size);
  CHECK(space.reserved().now == slab_pages * page_size);
  CHECK_FALSE(space.allocate(slab_pages * page_size, 1));
}

TEST_CASE("what is used is counted in units of 512 bytes, and ranges are whole pages", "[pages]") {
  MemoryPoolSpace space = one_slab();
  const auto a = space.allocate(4096, 1);
  const auto b = space.allocate(2048, 1);
  CHECK(space.used().now == 6144);
  const auto c = space.allocate(1, 1);
  REQUIRE((a && b && c));
  CHECK(*c - *b == page_size);
  CHECK(space.used().now == 6144 + 512);
  space.free(*c);
  // The ranges a and b are freed and merge, and are divided in another way.
  space.free_in_order(*a, 1);
  const std::uint64_t last = space.free_in_order(*b, 1);
  CHECK(space.used().now == 6144);
  const auto d = space.allocate(100, 1);
  CHECK(d == a);
  CHECK(space.used().now == 2048 + 512);
  space.reached(1, last);
  CHECK(space.used().now == 512);
  space.free(*d);
  CHECK(space.used().now == 0);
  CHECK(space.take_free_slab(~std::size_t{0}));
}

TEST_CASE("a leaving range is found for those who may have it", "[pages]") {
  MemoryPoolSpace space = one_slab();
  const auto a = space.allocate(4 * page_size, 1);
  const auto b = space.allocate(8 * page_size, 2);
  const std::uint64_t first = space.free_in_order(*a, 1);
  space.free_in_order(*b, 2);
  CHECK(space.find_leaving(page_size)->base == *a);
  CHECK(space.find_leaving(page_size, [](const auto& free) { return free.stream == 2; })->base ==
        *b);
  CHECK_FALSE(space.find_leaving(page_size, [&](const auto& free) { return free.number < first; }));
  CHECK_FALSE(space.allocate_own(page_size, 3));
  CHECK(space.allocate_own(page_size, 2) == *b);
}

TEST_CASE("a range freed in a stream is reusable by that stream only, until the stream gets there",
          "[pages]") {
  MemoryPoolSpace space = one_slab();
  const auto all = space.allocate(slab_pages * page_size, 1);
  REQUIRE(all);
  const std::uint64_t number = space.free_in_order(*all, 1);
  CHECK_FALSE(space.allocate(page_size, 2));
  CHECK(space.find_leaving(page_size)->stream == 1);
  CHECK(space.allocate(page_size, 1) == *all);
  CHECK(space.used().now == slab_pages * page_size);
  CHECK_FALSE(space.take_free_slab(~std::size_t{0}));
  space.reached(1, number);
  CHECK(space.used().now == page_size);
  CHECK(space.allocate(page_size, 2));
  CHECK_FALSE(space.find_leaving(page_size));
}

TEST_CASE("adjacent ranges freed in one stream merge, and become free with the last of them",
          "[pages]") {
  MemoryPoolSpace space = one_slab();
  const auto a = space.allocate(32 * page_size, 1);
  const auto b = space.allocate(32 * page_size, 1);
  const std::uint64_t first = space.free_in_order(*a, 7);
  const std::uint64_t second = space.free_in_order(*b, 7);
  CHECK(space.allocate(40 * page_size, 7) == *a);
  CHECK(space.free_in_order(*a, 7) > second);
  space.reached(7, first);
  CHECK(space.used().now == slab_pages * page_size);
  space.reached(7, second + 1);
  CHECK(space.used().now == 0);
  CHECK(space.take_free_slab(slab_pages * page_size)->base == base);
  CHECK(space.reserved().now == 0);
  CHECK(space.reserved().high == slab_pages * page_size);
}

TEST_CASE("slabs stay apart, and are returned only as a whole", "[pages]") {
  MemoryPoolSpace space = one_slab();
  space.add({base + slab_pages * page_size, slab_pages * page_size});
  CHECK_FALSE(space.allocate((slab_pages + 1) * page_size, 1));
  const auto a = space.allocate(slab_pages * page_size, 1);
  CHECK_FALSE(space.take_free_slab(slab_pages * page_size - 1));
  const auto slab = space.take_free_slab(slab_pages * page_size);
  REQUIRE(slab);
  CHECK(slab->base != *a);
  CHECK_FALSE(space.take_free_slab(slab_pages * page_size));
  CHECK(space.slab_of(*a + 5).base == *a);
}

// The model of a page of the pool.
struct Page {
  bool live = false;
  std::uint64_t stream = 0;  // the stream in which it was freed last
  std::uint64_t number = 0;
};

class Model {
 public:
  Model(MemoryPoolSpace& space, std::size_t slabs) : space_(space) {
    for (std::size_t slab = 0; slab < slabs; ++slab) {
      const std::uintptr_t start = base + 2 * slab * slab_pages * page_size;
      space_.add({start, slab_pages * page_size});
      for (std::size_t i = 0; i < slab_pages; ++i) pages_[start + i * page_size] = {};
    }
  }

  void allocate(std::size_t count, std::uint64_t stream) {
    const auto at = space_.allocate(count * page_size, stream);
    if (!at) {
      CHECK(longest_free() < count);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      Page& page = pages_.at(*at + i * page_size);
      REQUIRE_FALSE(page.live);
      REQUIRE((page.stream == stream || is_free(page)));
      page = {true, 0, 0};
    }
    live_[*at] = count;
  }
  // Stream 0: frees at once.
  void free(std::size_t which, std::uint64_t stream) {
    if (live_.empty()) return;
    const auto chosen = std::next(live_.begin(), static_cast<long>(which % live_.size()));
    if (stream == 0)
      space_.free(chosen->first);
    else
      last_ = space_.free_in_order(chosen->first, stream);
    for (std::size_t i = 0; i < chosen->second; ++i)
      pages_.at(chosen->first + i * page_size) = {false, stream, stream == 0 ? 0 : last_};
    live_.erase(chosen);
  }
  void reach(std::uint64_t stream, std::uint64_t number) {
    space_.reached(stream, number);
    reached_[stream] = std::max(reached_[stream], number);
  }
  void reach_all() {
    for (std::uint64_t stream = 1; stream <= 3; ++stream) reach(stream, last_);
    CHECK(space_.used().now == live_pages() * page_size);
  }
  std::uint64_t last() const { return last_; }

 private:
  bool is_free(const Page& page) const {
    if (page.live) return false;
    const auto reached = reached_.find(page.stream);
    return page.stream == 0 || (reached != reached_.end() && reached->second >= page.number);
  }
  // The longest run of free pages. Pages that no stream still has to free may have merged with
  // pages that are not free yet; then returns 0.
  std::size_t longest_free() const {
    std::size_t longest = 0;
    std::size_t length = 0;
    std::uintptr_t next = 0;
    const bool only_free = space_.used().now == live_pages() * page_size;
    for (const auto& [address, page] : pages_) {
      length = is_free(page) ? (address == next ? length + 1 : 1) : 0;
      next = address + page_size;
      longest = std::max(longest, length);
    }
    return only_free ? longest : 0;
  }
  std::size_t live_pages() const {
    std::size_t pages = 0;
    for (const auto& [at, count] : live_) pages += count;
    return pages;
  }

  MemoryPoolSpace& space_;
  std::map<std::uintptr_t, Page> pages_;
  std::map<std::uintptr_t, std::size_t> live_;
  std::map<std::uint64_t, std::uint64_t> reached_;
  std::uint64_t last_ = 0;
};

TEST_CASE("random programs agree with a model of pages", "[pages]") {
  std::mt19937_64 random(seed());
  MemoryPoolSpace space;
  Model model(space, 3);
  const auto pick = [&](std::uint64_t count) { return random() % count; };
  for (std::uint64_t step = scaled(20'000); step > 0; --step) {
    const std::uint64_t stream = 1 + pick(3);
    switch (pick(8)) {
      case 0:
        model.reach(stream, pick(model.last() + 1));
        break;
      case 1:
        model.reach_all();
        break;
      case 2:
        model.free(random(), 0);
        break;
      case 3:
      case 4:
        model.free(random(), stream);
        break;
      default:
        model.allocate(1 + pick(20), stream);
    }
  }
  model.reach_all();
}

}  // namespace
}  // namespace wherry::test::memory_pool_space_test
