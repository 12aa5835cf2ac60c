// The litmus patterns of tests/stress/litmus.cc between the host and coherent devices. They have
// one page table, so a page that is mapped does not fault: prefetches, evictions and samples of
// accesses move pages under processors that go on reading and writing them.
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "stress/huge_parts.h"
#include "support/catch.h"

namespace wherry::test::coherent_litmus_test {
namespace {

// Several workers each, because a thread that is not waiting for a fault can see states that a
// faulting thread cannot.
constexpr const char* two_coherent =
    "kind=coherent,capacity=64M,workers=3;kind=coherent,capacity=64M,workers=3";
constexpr const char* coherent_and_isolated =
    "kind=coherent,capacity=64M,workers=3;capacity=64M,workers=3";
constexpr const char* tiny_coherent = "kind=coherent,capacity=2M,workers=4";

// Samples move pages only after several of them agree, which takes some milliseconds. So a match
// may have few moves.
Match brief_match() {
  Match match;
  match.until_moved = scaled(20'000);
  match.moving_limit = std::chrono::milliseconds(10 + scaled(20));
  return match;
}

// Samples accesses again and again, to the pages that have the cells at any of the placements.
class Watch {
 public:
  explicit Watch(Rig& rig) : rig_(rig) {}

  void begin(const std::byte* memory, std::size_t bytes) {
    memory_ = memory;
    bytes_ = bytes;
  }
  void look() const {
    constexpr std::size_t region = impl::pages_per_region * impl::page_size;
    for (std::size_t block = 0; block < bytes_; block += impl::block_size)
      for (const std::size_t cell : {block, block + region})
        if (cell < bytes_) rig_.sample(memory_ + cell);
  }

 private:
  Rig& rig_;
  const std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// The pages are prefetched from place to place, and sampled on the way.
MatchHooks hooks_of(Courier& courier, Watch& watch) {
  return {[&](std::byte* memory, std::size_t bytes) {
            watch.begin(memory, bytes);
            courier.take(memory, bytes);
          },
          [&] {
            watch.look();
            courier.send();
            watch.look();
          }};
}

TEST_CASE("moving pages to the coherent devices that use them loses and reorders nothing") {
  require_clean([] {
    Course course{two_coherent,
                  {Step::forget, Step::fill, Step::protect, Step::punch, Step::change_view,
                   Step::map, Step::wake}};
    Rig& rig = course.rig();
    Watch watch{rig};
    // At first the pages are at one of the places in turn, which is not that of all players.
    unsigned turns = 0;
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             watch.begin(memory, bytes);
                             rig.prefetch(memory, bytes, everywhere[turns++ % everywhere.size()]);
                             rig.wait_for_prefetches();
                           },
                           [&] { watch.look(); }};
    course.run(brief_match(), casts_of_two_devices, hooks);
    // The prefetches have created the pages, and moved none.
    const std::uint64_t moved = rig.runtime().inspector().stats().migrated_in;
    if (moved == 0) throw std::runtime_error("no sample moved a page");
    std::printf("%llu of them by samples\n", static_cast<unsigned long long>(moved));
  });
}

TEST_CASE("prefetching pages in use to coherent devices loses and reorders nothing") {
  const bool transfers = GENERATE(false, true);
  require_clean([transfers] {
    Course course{two_coherent,
                  {transfers ? Step::transfer : Step::fill, Step::protect, Step::change_view,
                   Step::map, Step::wake},
                  transfers ? always_transfer : never_transfer};
    Courier courier{course.rig(), everywhere};
    course.run(brief_match(), casts_of_two_devices, courier.hooks());
  });
}

TEST_CASE("sampling pages that are prefetched loses and reorders nothing") {
  require_clean([] {
    Course course{
        two_coherent,
        {Step::forget, Step::transfer, Step::protect, Step::change_view, Step::map, Step::wake}};
    Courier courier{course.rig(), everywhere};
    Watch watch{course.rig()};
    course.run(brief_match(), casts_of_two_devices, hooks_of(courier, watch));
  });
}

// Sampling removes a page table entry. Where one huge entry maps a block, that unmaps all of it.
TEST_CASE("sampling whole blocks that are prefetched loses and reorders nothing") {
  require_clean([] {
    Course course{two_coherent,
                  {Step::forget, Step::transfer, Step::protect, Step::change_view, Step::map}};
    Courier courier{course.rig(), everywhere};
    Watch watch{course.rig()};
    Match match = brief_match();
    match.in_whole_blocks = true;
    course.run(match, casts_of_two_devices, hooks_of(courier, watch));
  });
}

TEST_CASE("moving pages among the host, a coherent and an isolated device reorders nothing") {
  require_clean([] {
    Course course{coherent_and_isolated,
                  {Step::forget, Step::copy, Step::transfer, Step::protect, Step::unprotect,
                   Step::change_view, Step::map, Step::wake, Step::punch}};
    Courier courier{course.rig(), everywhere};
    Watch watch{course.rig()};
    course.run(brief_match(), casts_of_two_devices, hooks_of(courier, watch));
  });
}

// The host, a coherent and an isolated device: two page tables, and three pools.
TEST_CASE("moving parts of huge pages from and to coherent devices loses and reorders nothing") {
  const bool transfers = GENERATE(false, true);
  require_clean([transfers] {
    Visitors visitors;
    PipeHolder holder;
    Course course{coherent_and_isolated,
                  {Step::split, transfers ? Step::transfer : Step::fill, Step::protect,
                   Step::change_view, Step::map},
                  transfers ? always_transfer : never_transfer};
    Rig& rig = course.rig();
    if (!has_huge_pages(rig)) return;
    HugeParts parts{rig, everywhere};
    Match match;
    match.in_whole_blocks = true;
    match.until_moved = scaled(4000);
    match.moving_limit = std::chrono::milliseconds(20 + scaled(180));
    course.run(match, casts_of_two_devices, hooks_with_holder(rig, parts, visitors, holder));
    parts.require_parted();
  });
}

// The cells' memory and other memory come to a device that has room for one of them only.
TEST_CASE("evicting pages in use from a coherent device loses and reorders nothing") {
  const bool transfers = GENERATE(false, true);
  require_clean([transfers] {
    Course course{tiny_coherent,
                  {Step::forget, transfers ? Step::transfer : Step::fill, Step::protect,
                   Step::change_view, Step::map, Step::wake},
                  transfers ? always_transfer : never_transfer};
    Rig& rig = course.rig();
    const std::byte* const other = rig.allocate(impl::block_size);
    const std::byte* cells = nullptr;
    std::size_t size = 0;
    Watch watch{rig};
    bool turn = false;
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             cells = memory;
                             size = bytes;
                             watch.begin(memory, bytes);
                           },
                           [&] {
                             turn = !turn;
                             rig.prefetch(turn ? cells : other, turn ? size : impl::block_size,
                                          impl::Location::device(0));
                             watch.look();
                           }};
    course.run(brief_match(), casts_of_one_device, hooks);
    const std::uint64_t evicted = rig.runtime().inspector().stats().evicted;
    if (evicted == 0) throw std::runtime_error("nothing was evicted");
    std::printf("%llu pages evicted\n", static_cast<unsigned long long>(evicted));
  });
}

}  // namespace
}  // namespace wherry::test::coherent_litmus_test
