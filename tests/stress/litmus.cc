// Every transition of a page's place or state, with a delay or a failure at each of its steps,
// while the host and the devices play four litmus patterns on the moving pages. No pattern may be
// violated.
//
// Random stress finds little here: a wrong order of two steps is visible only to a processor that
// reads between them. The injector therefore stretches the time between steps, one step after
// another.
#include <cstdio>
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
    Match match;
    match.until_moved = scaled(200);
    course.run(match, {{on_host, 0},
                       {on_host, 0, on_host, 0},
                       {0, on_host, 0, on_host},
                       {0, on_host, on_host, 0}});
  });
}

TEST_CASE("migrating pages between two devices loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_migration};
    Match match;
    match.until_moved = scaled(200);
    course.run(match, {{0, 1}, {0, 1, 0, 1}, {1, 0, 1, 0}, {0, 1, 1, 0}, {1, 0, 0, on_host}});
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
    Match match;
    match.until_moved = scaled(400);
    // Pages leave because of eviction, not because the host accesses them often.
    match.visitor = on_host;
    const MatchHooks hooks{{}, [&] { ballast.push(); }};
    course.run(match,
               {{0, 0, on_host}, {0, on_host, 0}, {on_host, 0, 0}, {0, on_host}, {on_host, 0}},
               hooks);
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
    Match match;
    match.until_moved = scaled(200);
    const MatchHooks hooks{{}, [&] {
                             std::byte* const neighbour = rig.allocate(impl::page_size);
                             if (*neighbour != std::byte{0})
                               throw std::runtime_error("new memory is not zero");
                             *neighbour = std::byte{1};
                             rig.free(neighbour);
                           }};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1, on_host}}, hooks);
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
    Rig& rig = course.rig();
    Match match;
    match.until_moved = scaled(60);
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             rig.advise(memory, bytes, {Kind::set_read_mostly, {}});
                           },
                           {}};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1}, {0, 1, on_host}, {on_host, 0, 1, 0}},
               hooks);
  });
}

TEST_CASE("setting and unsetting read-mostly during accesses loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, steps_of_migration};
    Rig& rig = course.rig();
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    bool set = false;
    Match match;
    match.until_moved = scaled(120);
    const MatchHooks hooks{
        [&](std::byte* cells, std::size_t size) {
          memory = cells;
          bytes = size;
        },
        [&] {
          set = !set;
          rig.advise(memory, bytes, {set ? Kind::set_read_mostly : Kind::unset_read_mostly, {}});
        }};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1, on_host}}, hooks);
  });
}

TEST_CASE("mapping pages remotely while they move loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices,
                  {Step::copy, Step::protect, Step::unprotect, Step::map, Step::wake, Step::punch,
                   Step::change_view}};
    Rig& rig = course.rig();
    std::byte* memory = nullptr;
    std::size_t bytes = 0;
    unsigned turns = 0;
    const auto prefer = [&] {
      const impl::Location places[] = {impl::Location::device(0), impl::Location::host(),
                                       impl::Location::device(1), impl::Location::host()};
      rig.advise(memory, bytes, {Kind::set_preferred, places[turns++ % std::size(places)]});
    };
    Match match;
    match.until_moved = scaled(80);
    const MatchHooks hooks{[&](std::byte* cells, std::size_t size) {
                             memory = cells;
                             bytes = size;
                             prefer();
                           },
                           prefer};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1}, {0, 1, on_host}, {on_host, 0, 1, 0}},
               hooks);
  });
}

TEST_CASE("following pages that move between two devices loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices,
                  {Step::copy, Step::protect, Step::unprotect, Step::map, Step::wake, Step::punch,
                   Step::change_view}};
    Rig& rig = course.rig();
    Match match;
    match.until_moved = scaled(80);
    const MatchHooks hooks{
        [&](std::byte* memory, std::size_t bytes) {
          rig.advise(memory, bytes, {Kind::set_accessed_by, impl::Location::host()});
        },
        {}};
    course.run(match,
               {{0, 1}, {0, on_host, 1}, {on_host, 0, 1}, {0, 1, on_host}, {on_host, 1, 0, 0}},
               hooks);
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
    Match match;
    match.until_moved = scaled(400);
    const MatchHooks hooks{
        [&](std::byte* memory, std::size_t bytes) {
          rig.advise(memory, bytes, {Kind::set_accessed_by, impl::Location::host()});
        },
        [&] { ballast.push(); }};
    course.run(match, {{0, 0, on_host}, {0, on_host, 0}, {on_host, 0, 0}, {0, on_host}}, hooks);
  });
}

TEST_CASE("prefetching pages that are in use loses and reorders nothing") {
  require_clean([] {
    Course course{
        roomy_devices,
        {Step::transfer, Step::protect, Step::map, Step::wake, Step::unprotect, Step::copy}};
    Courier courier{course.rig(), everywhere};
    Match match;
    match.until_moved = scaled(200);
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1}, {0, 1, on_host}, {on_host, 0, 1, 0}},
               courier.hooks());
  });
}

TEST_CASE("copying pages that are in use and move loses and reorders nothing") {
  require_clean([] {
    Course course{
        roomy_devices,
        {Step::transfer, Step::protect, Step::map, Step::wake, Step::unprotect, Step::copy}};
    Rig& rig = course.rig();
    Courier courier{rig, everywhere};
    std::byte* copied = nullptr;
    std::size_t size = 0;
    Match match;
    match.until_moved = scaled(200);
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             copied = memory;
                             size = bytes;
                             courier.take(memory, bytes);
                           },
                           [&] {
                             rig.copy_out(copied, size);
                             courier.send();
                           }};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1, on_host}, {on_host, 0, 1, 0}}, hooks);
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
    // Otherwise nothing has to be removed first.
    if (!traits_of(rig.runtime().options().trap.kind).uses_userfaultfd)
      course.leave_out(Step::forget);
    if (!rig.runtime().maps_huge_pages()) {
      std::printf("skipped: pools have no huge pages here\n");
      return;
    }
    std::byte* memory = nullptr;
    std::size_t size = 0;
    unsigned turns = 0;
    const auto give_entries = [&] {
      for (std::size_t i = 0; i < size; i += impl::block_size)
        (void)rig.runtime().consolidator().consolidate(rig.block_of(memory + i));
    };
    const auto send_in_parts = [&] {
      const impl::Location to = everywhere[turns++ % everywhere.size()];
      constexpr std::size_t part = impl::block_size / 2;
      for (std::size_t i = 0; i < size; i += part) {
        rig.prefetch(memory + i, part, to);
        rig.wait_for_prefetches();
      }
    };
    Match match;
    match.in_whole_blocks = true;
    match.until_moved = scaled(1200);
    const MatchHooks hooks{[&](std::byte* cells, std::size_t bytes) {
                             memory = cells;
                             size = bytes;
                             for (const impl::Location& place : everywhere)
                               rig.advise(cells, bytes, {Kind::set_accessed_by, place});
                             send_in_parts();
                           },
                           [&] {
                             give_entries();
                             send_in_parts();
                             give_entries();
                           }};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1}, {0, 1, on_host}, {on_host, 0, 1, 0}},
               hooks);
  });
}

// The players take regions of the blocks from each other while Linux merges them: pages leave a
// pool in the middle of a merge.
TEST_CASE("giving one huge page to a block whose pages leave loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices, {Step::merge, Step::map, Step::punch}};
    Rig& rig = course.rig();
    if (!rig.runtime().maps_huge_pages()) {
      std::printf("skipped: pools have no huge pages here\n");
      return;
    }
    std::byte* memory = nullptr;
    std::size_t size = 0;
    unsigned turns = 0;
    Match match;
    match.in_whole_blocks = true;
    match.until_moved = scaled(200);
    const MatchHooks hooks{
        [&](std::byte* cells, std::size_t bytes) {
          memory = cells;
          size = bytes;
        },
        [&] {
          for (std::size_t i = 0; i < size; i += impl::block_size) {
            rig.prefetch(memory + i, impl::block_size, everywhere[turns % everywhere.size()]);
            rig.wait_for_prefetches();
            (void)rig.runtime().consolidator().consolidate(rig.block_of(memory + i));
          }
          ++turns;
        }};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1}, {0, 1, on_host}, {on_host, 0, 1, 0}},
               hooks);
  });
}

TEST_CASE("prefetching copies of read-mostly pages loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices,
                  {Step::transfer, Step::protect, Step::map, Step::wake, Step::unprotect}};
    Rig& rig = course.rig();
    Courier courier{rig, everywhere};
    Match match;
    match.until_moved = scaled(120);
    const MatchHooks hooks{[&](std::byte* memory, std::size_t bytes) {
                             rig.advise(memory, bytes, {Kind::set_read_mostly, {}});
                             courier.take(memory, bytes);
                           },
                           [&] { courier.send(); }};
    course.run(match, {{on_host, 0}, {0, on_host}, {0, 1, on_host}, {on_host, 0, 1, 0}}, hooks);
  });
}

TEST_CASE("prefetching pages that are mapped remotely loses and reorders nothing") {
  require_clean([] {
    Course course{roomy_devices,
                  {Step::transfer, Step::protect, Step::map, Step::wake, Step::change_view}};
    Rig& rig = course.rig();
    Courier courier{rig, everywhere};
    Match match;
    match.until_moved = scaled(120);
    const MatchHooks hooks{
        [&](std::byte* memory, std::size_t bytes) {
          rig.advise(memory, bytes, {Kind::set_accessed_by, impl::Location::host()});
          courier.take(memory, bytes);
        },
        [&] { courier.send(); }};
    course.run(match, {{0, 1}, {0, on_host, 1}, {on_host, 0, 1}, {on_host, 1, 0, 0}}, hooks);
  });
}

}  // namespace
}  // namespace wherry::test::litmus_test
