// A part of a huge page leaves its pool, with a delay at each step (migration/folio_separator.h),
// while players use the part and its neighbours in the huge page, and others check and count on all
// of the huge page's other pages.
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "stress/huge_parts.h"
#include "support/capabilities.h"
#include "support/catch.h"

namespace wherry::test::parts_litmus_test {
namespace {

using Kind = impl::AdviceChange::Kind;

// Several workers each, because a thread that is not waiting for a fault can see states that a
// faulting thread cannot.
constexpr const char* roomy_devices = "capacity=64M,workers=4;capacity=64M,workers=4";
constexpr const char* tiny_device = "capacity=2M,workers=4";

// Every turn moves whole blocks.
Match brief_match() {
  Match match;
  match.in_whole_blocks = true;
  match.until_moved = scaled(2000);
  match.moving_limit = std::chrono::milliseconds(20 + scaled(60));
  return match;
}

std::uint64_t held_so_far(Rig& rig) {
  return rig.runtime().inspector().stats().held;
}
// A thread that faults holds its page for a moment, so a few pages count as held without a holder.
void require_few_held(Rig& rig) {
  constexpr std::uint64_t others_per_held = 100;
  const std::uint64_t held = held_so_far(rig);
  if (held * others_per_held > rig.pages_moved())
    throw std::runtime_error(std::to_string(held) + " pages count as held, and nobody holds any");
}

enum class Sharing {
  none,
  mapped,      // Every processor maps the pages where they are.
  duplicated,  // Pages that are read have copies.
};

void share(Rig& rig, std::byte* memory, std::size_t bytes, Sharing sharing) {
  if (sharing == Sharing::mapped)
    for (const impl::Location& place : everywhere)
      rig.advise(memory, bytes, {Kind::set_accessed_by, place});
  if (sharing == Sharing::duplicated) rig.advise(memory, bytes, {Kind::set_read_mostly, {}});
}

// Hooks of a course in which visitors use the blocks while `meanwhile` moves parts of them.
MatchHooks hooks_of(Rig& rig, HugeParts& parts, Visitors& visitors, std::function<void()> meanwhile,
                    Sharing sharing = Sharing::none) {
  return {[&, sharing](std::byte* memory, std::size_t bytes) {
            visitors.begin(memory, bytes);
            parts.begin(memory, bytes);
            share(rig, memory, bytes, sharing);
          },
          std::move(meanwhile), [&] { return visitors.end(rig); }};
}

// Parts leave by the players' faults, and by prefetches.
void run_course(Sharing sharing, std::vector<Step> steps, unsigned transfer_pages_min) {
  Visitors visitors;
  Course course{roomy_devices, std::move(steps), transfer_pages_min};
  Rig& rig = course.rig();
  if (!has_huge_pages(rig)) return;
  HugeParts parts{rig, everywhere};
  const auto meanwhile = [&] {
    visitors.visit_by_device(rig);
    parts.scatter();
    visitors.visit_by_host();
    parts.gather();
  };
  course.run(brief_match(), casts_of_two_devices,
             hooks_of(rig, parts, visitors, meanwhile, sharing));
  parts.require_parted();
  require_few_held(rig);
}

TEST_CASE("moving parts of huge pages loses and reorders nothing") {
  require_clean([] {
    run_course(Sharing::none,
               {Step::split, Step::copy, Step::protect, Step::unprotect, Step::wake, Step::punch},
               never_transfer);
  });
}

TEST_CASE("moving parts of huge pages by transfers loses and reorders nothing") {
  require_clean([] {
    run_course(Sharing::none, {Step::split, Step::transfer, Step::protect, Step::wake},
               always_transfer);
  });
}

TEST_CASE("moving parts of huge pages that all processors map loses and reorders nothing") {
  const bool transfers = GENERATE(false, true);
  require_clean([transfers] {
    run_course(Sharing::mapped,
               {Step::split, transfers ? Step::transfer : Step::fill, Step::protect, Step::map},
               transfers ? always_transfer : never_transfer);
  });
}

TEST_CASE("copying parts of huge pages and dropping the copies loses and reorders nothing") {
  require_clean([] {
    run_course(Sharing::duplicated, {Step::split, Step::protect, Step::wake, Step::punch},
               always_transfer);
  });
}

// A block is evicted in pieces. The first one is a part of a huge page, and has to be split off.
TEST_CASE("evicting huge pages in pieces loses and reorders nothing") {
  require_clean([] {
    Visitors visitors;
    Course course{
        tiny_device, {Step::split, Step::copy, Step::protect, Step::punch}, never_transfer};
    Rig& rig = course.rig();
    if (!has_huge_pages(rig)) return;
    const std::byte* const other = rig.allocate(impl::block_size);
    HugeParts parts{rig, {impl::Location::device(0)}};
    Match match = brief_match();
    // Pages leave because of eviction, not because the host accesses them often.
    match.visitor = on_host;
    const auto meanwhile = [&] {
      rig.prefetch(other, impl::block_size, impl::Location::device(0));
      rig.wait_for_prefetches();
      visitors.visit_by_device(rig);
      parts.gather();
    };
    course.run(match, casts_of_one_device, hooks_of(rig, parts, visitors, meanwhile));
    parts.require_parted();
    if (rig.runtime().inspector().stats().evicted == 0)
      throw std::runtime_error("nothing was evicted");
  });
}

TEST_CASE("discarding parts of huge pages loses and reorders nothing beside them") {
  require_clean([] {
    constexpr unsigned kept = impl::pages_per_block * 3 / 4;
    Visitors visitors(kept);
    Course course{roomy_devices, {Step::split, Step::punch, Step::protect}, never_transfer};
    Rig& rig = course.rig();
    if (!has_huge_pages(rig)) return;
    HugeParts parts{rig, everywhere};
    const auto meanwhile = [&] {
      parts.discard(kept);
      visitors.visit_by_device(rig);
      visitors.visit_by_host();
      parts.gather();
    };
    course.run(brief_match(), casts_of_two_devices, hooks_of(rig, parts, visitors, meanwhile));
    parts.require_parted();
  });
}

// Parts of huge pages move while a pipe holds some of their pages.
void run_course_with_holder(Sharing sharing, Step moves, unsigned transfer_pages_min) {
  Visitors visitors;
  PipeHolder holder;
  Course course{roomy_devices, {Step::split, Step::protect, moves}, transfer_pages_min};
  Rig& rig = course.rig();
  if (!has_huge_pages(rig)) return;
  HugeParts parts{rig, everywhere};
  const auto share_all = [&](std::byte* memory, std::size_t bytes) {
    share(rig, memory, bytes, sharing);
  };
  course.run(brief_match(), casts_of_two_devices,
             hooks_with_holder(rig, parts, visitors, holder, share_all));
  parts.require_parted();
  std::printf("%llu pages in the pipe, %llu pages stayed because of it\n",
              static_cast<unsigned long long>(holder.held_pages()),
              static_cast<unsigned long long>(held_so_far(rig)));
  if (!serves_system_calls()) return;
  if (holder.held_pages() == 0) throw std::runtime_error("the pipe got no page");
  // With sharing no page needs to stay: pages that several processors map get new frames, and
  // copies leave.
  if (sharing == Sharing::none && held_so_far(rig) == 0)
    throw std::runtime_error("no page stayed because it was held");
}

TEST_CASE("moving parts of huge pages changes nothing for somebody who holds pages") {
  require_clean([] { run_course_with_holder(Sharing::none, Step::punch, never_transfer); });
}

TEST_CASE("moving parts of huge pages by transfers changes nothing for somebody who holds pages") {
  require_clean([] { run_course_with_holder(Sharing::none, Step::transfer, always_transfer); });
}

TEST_CASE("moving parts that all processors map changes nothing for somebody who holds pages") {
  require_clean([] { run_course_with_holder(Sharing::mapped, Step::transfer, always_transfer); });
}

TEST_CASE("copying parts and dropping copies changes nothing for somebody who holds pages") {
  require_clean([] { run_course_with_holder(Sharing::duplicated, Step::punch, always_transfer); });
}

}  // namespace
}  // namespace wherry::test::parts_litmus_test
