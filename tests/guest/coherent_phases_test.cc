// On a machine with three NUMA nodes, pages of coherent devices follow the threads that use them.
#include "guest/coherent_nodes.h"
#include "support/conditions.h"

namespace wherry::test::coherent_nodes::coherent_phases_test {

namespace {

constexpr int patience_ms = 120'000;

// An emulated CPU is slow: in 2 % of its time, the default, it takes too few samples.
const char* sampling() {
  return scale() >= 1 ? "2" : "20";
}

// Whether all pages are on the node, but for those whose entries a sample has removed just now.
bool are_on(int node, const Pages& pages) {
  auto counts = numa_maps_now(pages);
  const std::size_t here = counts[node];
  counts.erase(node);
  return counts.empty() && here >= pages.size() * 9 / 10;
}

// Touches the pages until they are on the node. Returns false if that takes too long.
bool come_to(int node, const Pages& pages) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (std::chrono::steady_clock::now() < end) {
    touch(pages);
    if (are_on(node, pages)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("pages follow the threads that use them, and a new phase moves them again", "[guest]") {
  coherent_session(sampling());
  const Pages pages{4 * block_pages};
  touch(pages);
  REQUIRE(come_to(0, pages));
  for (const int cpu : {2, 0, 3}) {
    const int node = cpu / 2;
    CAPTURE(cpu);
    on_cpu(cpu, [&] {
      if (scale() >= 1) {  // for who reads the output
        using Clock = std::chrono::steady_clock;
        const auto begun = Clock::now();
        while (Clock::now() - begun < std::chrono::seconds(1)) touch(pages);
        WARN("local after one second: " << share_on(node, pages));
      }
      CHECK(come_to(node, pages));
    });
  }
}

TEST_CASE("a page that threads of two nodes use alike stays", "[guest]") {
  coherent_session(sampling());
  const Pages pages{2 * block_pages};
  touch(pages);
  const std::uint64_t moved = read_stats().migrated_in;
  std::atomic<bool> ends{false};
  std::array<std::thread, 2> users;
  for (std::size_t i = 0; i < users.size(); ++i)
    users[i] = std::thread([&, i] {
      on_cpu(static_cast<int>(2 * i), [&] {
        while (!ends) touch(pages);
      });
    });
  std::this_thread::sleep_for(scale() >= 1 ? std::chrono::seconds(3) : std::chrono::seconds(1));
  ends = true;
  for (std::thread& user : users) user.join();
  CHECK(read_stats().migrated_in - moved <= 20 * pages.size());
}

}  // namespace wherry::test::coherent_nodes::coherent_phases_test
