// Host threads and three devices, all at once, on pages that are shared, falsely shared, evicted
// and passed around: no increment is lost, no value is torn, no message overtakes its data. Ten
// million accesses, drawn from a printed seed; every player's sequence of operations depends on the
// seed alone.
#include <cstdio>

#include "stress/shared_pages.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::stress_test {
namespace {

constexpr std::uint64_t accesses_wanted = 10'000'000;

TEST_CASE(
    "nothing is lost, torn or overtaken in ten million accesses by the host and three devices",
    "[stress]") {
  const Session session{SharedPagesGame::device_list};
  SharedPagesGame game{session, scaled(accesses_wanted)};
  game.play();
  const std::uint64_t accesses = game.check();
  const wherryStats stats = read_stats();
  CHECK(accesses >= scaled(accesses_wanted));
  std::printf("%llu accesses, %llu faults, %llu pages migrated, %llu evicted\n",
              static_cast<unsigned long long>(accesses),
              static_cast<unsigned long long>(stats.faults_missing + stats.faults_minor +
                                              stats.faults_write_protect),
              static_cast<unsigned long long>(stats.migrated_in),
              static_cast<unsigned long long>(stats.evicted));
  CHECK(stats.migrated_in > 0);
  CHECK(stats.evicted > 0);
}

}  // namespace
}  // namespace wherry::test::stress_test
