// Every transition of a page's place or state, with a delay or a failure at each of its steps,
// while the host and the devices play four litmus patterns on the moving pages. No pattern may be
// violated.
//
// Random stress finds little here: a wrong order of two steps is visible only to a processor that
// reads between them. The injector therefore stretches the time between steps, one step after
// another.
#include <span>
#include <stdexcept>

#include "stress/course.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::litmus_test {
namespace {

using Kind = impl::AdviceChange::Kind;

// Several workers each, because a thread that is not waiting for a fault can see states that a
// faulting thread cannot.
constexpr const char* roomy_devices = "capacity=64M,workers=3;capacity=64M,workers=3";
constexpr const char* tiny_device = "capacity=2M,workers=4";

// Memory that device 0 writes besides its players' cells. It keeps pushing their pages out of its
// pool.
class Ballast {
 public:
  explicit Ballast(Rig& rig) : rig_(rig), memory_(rig.allocate(regions * region_bytes)) {}

  void push() const {
    rig_.launch_beside(0, [memory = memory_] {
      for (std::size_t i = 0; i < regions; ++i)
        *const_cast<volatile std::byte*>(memory + i * region_bytes) = std::byte{1};
    });
  }

 private:
  static constexpr std::size_t regions = 48;
  static constexpr std::size_t region_bytes = impl::pages_per_region * impl::page_size;

  Rig& rig_;
  std::byte* const memory_;
};

const std::vector<Step> steps_of_migration{Step::copy, Step::protect, Step::unprotect, Step::wake,
                                           Step::punch};
const std::vector<Step> steps_of_following{Step::copy, Step::protect, Step::unprotect,  Step::map,
                                           Step::wake, Step::punch,   Step::change_view};
const std::vector<Step> steps_of_prefetch{Step::transfer, Step::protect,   Step::map,
                                          Step::wake,     Step::unprotect, Step::copy};

const impl::AdviceChange accessed_by_host{Kind::set_accessed_by, impl::Location::host()};

// A match that ends when so many pages have moved: fewer at less than full length.
Match moving(std::uint64_t pages) {
  Match match;
  match.until_moved = scaled(pages);
  return match;
}

// Hooks that give the cells' memory the advice, and then do more.
MatchHooks advising(Rig& rig, const impl::AdviceChange& change, MatchHooks more = {}) {
  return {[&rig, change, before = std::move(more.before)](std::byte* memory, std::size_t bytes) {
            rig.advise(memory, bytes, change);
            if (before) before(memory, bytes);
          },
          std::move(more.meanwhile)};
}

TEST_CASE("populating a page at the processor that accesses it first loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::zero, Step::wake}};
    Match match;
    match.stages = scaled_stages(12);
    match.rounds_max = 40;
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1, on_host}, {on_host, on_host, 0, 0}});
  });
}

TEST_CASE("migrating pages between host and device loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_migration};
    course.run(moving(200), {{on_host, 0},
                             {on_host, 0, on_host, 0},
                             {0, on_host, 0, on_host},
                             {0, on_host, on_host, 0}});
  });
}

TEST_CASE("migrating pages between two devices loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_migration};
    course.run(moving(200), {{0, 1}, {0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 1, 0}, {1, 0, 0, on_host}});
  });
}

TEST_CASE("evicting pages that are in use loses and reorders nothing") {
  const bool transfers = GENERATE(false, true);
  require_clean([transfers] {
    Course course{tiny_device,
                  transfers ? std::vector{Step::copy, Step::transfer, Step::protect,
                                          Step::unprotect, Step::wake}
                            : steps_of_migration,
                  transfers ? always_transfer : never_transfer};
    Rig& rig = course.rig();
    const Ballast ballast{rig};
    Match match = moving(400);
    // Pages leave because of eviction, not because the host accesses them often.
    match.visitor = on_host;
    const MatchHooks hooks{{}, [&] { ballast.push(); }};
    course.run(match, casts_of_one_device, hooks);
  });
}

TEST_CASE("freeing memory and allocating it again elsewhere loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::punch, Step::zero, Step::wake}};
    Rig& rig = course.rig();
    Match match;
    match.stages = 2;
    match.rounds_max = 40;
    // Between two matches, in memory next to that of the coming one: makes allocations, uses them
    // and frees them.
    const MatchHooks hooks{[&](std::byte*, std::size_t) {
                             for (int i = 0; i < 8; ++i) {
                               std::byte* const passing = rig.allocate(impl::page_size << (i % 5));
                               if (*passing != std::byte{0})
                                 throw std::runtime_error("new memory is not zero");
                               *passing = std::byte{1};
                               if (i % 2 == 0)
                                 rig.launch(0, 1,
                                            [passing](std::size_t) { *passing = std::byte{2}; });
                               if (i % 2 == 0) rig.wait(0);
                               rig.free(passing);
                             }
                           },
                           {}};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1, on_host}}, hooks);
  });
}

TEST_CASE("freeing the neighbour of pages that are in use loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::punch, Step::zero, Step::copy, Step::wake}};
    Rig& rig = course.rig();
    const MatchHooks hooks{{}, [&] {
                             std::byte* const neighbour = rig.allocate(impl::page_size);
                             if (*neighbour != std::byte{0})
                               throw std::runtime_error("new memory is not zero");
                             *neighbour = std::byte{1};
                             rig.free(neighbour);
                           }};
    course.run(moving(200), {{on_host, 0}, {0, on_host}, {0, 1, on_host}}, hooks);
  });
}

TEST_CASE("mapping pages again after a device's restart loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::map, Step::copy, Step::wake}};
    Rig& rig = course.rig();
    Match match;
    match.stages = scaled_stages(8);
    match.rounds_max = 40;
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             rig.launch(0, 1, [memory, bytes](std::size_t) {
                               for (std::size_t i = 0; i < bytes; i += impl::page_size)
                                 *const_cast<volatile std::byte*>(memory + i + 2040) = std::byte{1};
                             });
                             rig.wait(0);
                             rig.runtime().devices().restart(0);
                           },
                           {}};
    course.run(match, {{0, on_host}, {on_host, 0}, {0, 0, on_host}, {0, 1, on_host}}, hooks);
  });
}

TEST_CASE("copying read-mostly pages and collapsing the copies loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_migration};
    course.run(moving(60), casts_of_two_devices,
               advising(course.rig(), {Kind::set_read_mostly, {}}));
  });
}

TEST_CASE("setting and unsetting read-mostly during accesses loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_migration};
    Rig& rig = course.rig();
    std::span<std::byte> cells;
    bool set = false;
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             cells = {memory, bytes};
                           },
                           [&] {
                             set = !set;
                             rig.advise(
                                 cells.data(), cells.size(),
                                 {set ? Kind::set_read_mostly : Kind::unset_read_mostly, {}});
                           }};
    course.run(moving(120), {{on_host, 0}, {0, on_host}, {0, 1, on_host}}, hooks);
  });
}

TEST_CASE("mapping pages remotely while they move loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_following};
    Rig& rig = course.rig();
    std::span<std::byte> cells;
    unsigned turns = 0;
    const auto prefer = [&] {
      const impl::Location places[] = {impl::Location::device(0), impl::Location::host(),
                                       impl::Location::device(1), impl::Location::host()};
      rig.advise(cells.data(), cells.size(),
                 {Kind::set_preferred, places[turns++ % std::size(places)]});
    };
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             cells = {memory, bytes};
                             prefer();
                           },
                           prefer};
    course.run(moving(80), casts_of_two_devices, hooks);
  });
}

TEST_CASE("following pages that move between two devices loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_following};
    course.run(moving(80),
               {{0, 1}, {0, on_host, 1}, {on_host, 0, 1}, {0, 1, on_host}, {on_host, 1, 0, 0}},
               advising(course.rig(), accessed_by_host));
  });
}

TEST_CASE("evicting pages that the host has mapped remotely loses and reorders nothing") {
  const bool transfers = GENERATE(false, true);
  require_clean([transfers] {
    Course course{tiny_device,
                  {Step::copy, Step::protect, Step::map, Step::wake, Step::punch,
                   transfers ? Step::transfer : Step::fill, Step::change_view},
                  transfers ? always_transfer : never_transfer};
    Rig& rig = course.rig();
    const Ballast ballast{rig};
    course.run(moving(400), {{0, 0, on_host}, {0, on_host, 0}, {on_host, 0, 0}, {0, on_host}},
               advising(rig, accessed_by_host, {{}, [&] { ballast.push(); }}));
  });
}

TEST_CASE("prefetching pages that are in use loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_prefetch};
    Courier courier{course.rig(), everywhere};
    course.run(moving(200), casts_of_two_devices, courier.hooks());
  });
}

TEST_CASE("copying pages that are in use and move loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_prefetch};
    Rig& rig = course.rig();
    Courier courier{rig, everywhere};
    std::span<std::byte> cells;
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             cells = {memory, bytes};
                             courier.take(memory, bytes);
                           },
                           [&] {
                             rig.copy_out(cells.data(), cells.size());
                             courier.send();
                           }};
    course.run(moving(200), {{on_host, 0}, {0, on_host}, {0, 1, on_host}, {on_host, 0, 1, 0}},
               hooks);
  });
}

TEST_CASE("prefetching memory while its use begins loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::transfer, Step::zero, Step::map, Step::wake}};
    Courier courier{course.rig(), everywhere};
    Match match;
    match.stages = scaled_stages(12);
    match.rounds_max = 40;
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1, on_host}, {on_host, on_host, 0, 0}},
               courier.hooks());
  });
}

// Every processor accesses the blocks where they are, so that they stay whole. They come in parts,
// and are given huge entries while the players use them.
TEST_CASE("giving a block in use one huge page and one entry loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::merge, Step::forget, Step::map}};
    Rig& rig = course.rig();
    // Without userfaultfd no entries have to be removed before a block gets a huge entry.
    if (!traits_of(rig.runtime().options().trap.kind).uses_userfaultfd)
      course.leave_out(Step::forget);
    if (!has_huge_pages(rig)) return;
    std::span<std::byte> cells;
    unsigned turns = 0;
    const auto give_entries = [&] {
      for (std::size_t i = 0; i < cells.size(); i += impl::block_size)
        (void)rig.runtime().consolidator().consolidate(rig.block_of(&cells[i]));
    };
    const auto send_in_parts = [&] {
      const impl::Location to = everywhere[turns++ % everywhere.size()];
      constexpr std::size_t part = impl::block_size / 2;
      for (std::size_t i = 0; i < cells.size(); i += part) {
        rig.prefetch(&cells[i], part, to);
        rig.wait_for_prefetches();
      }
    };
    Match match = moving(1200);
    match.in_whole_blocks = true;
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             cells = {memory, bytes};
                             for (const impl::Location& place : everywhere)
                               rig.advise(memory, bytes, {Kind::set_accessed_by, place});
                             send_in_parts();
                           },
                           [&] {
                             give_entries();
                             send_in_parts();
                             give_entries();
                           }};
    course.run(match, casts_of_two_devices, hooks);
  });
}

// The players take regions of the blocks from each other while Linux merges them: pages leave a
// pool in the middle of a merge.
TEST_CASE("giving one huge page to a block whose pages leave loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::merge, Step::map, Step::punch}};
    Rig& rig = course.rig();
    if (!has_huge_pages(rig)) return;
    std::span<std::byte> cells;
    unsigned turns = 0;
    Match match = moving(200);
    match.in_whole_blocks = true;
    const MatchHooks hooks{
        [&](std::byte* memory, std::size_t bytes) {
          cells = {memory, bytes};
        },
        [&] {
          for (std::size_t i = 0; i < cells.size(); i += impl::block_size) {
            rig.prefetch(&cells[i], impl::block_size, everywhere[turns % everywhere.size()]);
            rig.wait_for_prefetches();
            (void)rig.runtime().consolidator().consolidate(rig.block_of(&cells[i]));
          }
          ++turns;
        }};
    course.run(match, casts_of_two_devices, hooks);
  });
}

TEST_CASE("prefetching copies of read-mostly pages loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices,
                  {Step::transfer, Step::protect, Step::map, Step::wake, Step::unprotect}};
    Rig& rig = course.rig();
    Courier courier{rig, everywhere};
    course.run(moving(120), {{on_host, 0}, {0, on_host}, {0, 1, on_host}, {on_host, 0, 1, 0}},
               advising(rig, {Kind::set_read_mostly, {}}, courier.hooks()));
  });
}

TEST_CASE("prefetching pages that are mapped remotely loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices,
                  {Step::transfer, Step::protect, Step::map, Step::wake, Step::change_view}};
    Rig& rig = course.rig();
    Courier courier{rig, everywhere};
    course.run(moving(120), {{0, 1}, {0, on_host, 1}, {on_host, 0, 1}, {on_host, 1, 0, 0}},
               advising(rig, accessed_by_host, courier.hooks()));
  });
}

}  // namespace
}  // namespace wherry::test::litmus_test
