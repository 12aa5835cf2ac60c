// A device works on several times its capacity: its pool never exceeds the capacity, not even
// briefly, and no byte is lost.
#include <atomic>
#include <thread>

#include "support/catch.h"
#include "support/conditions.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::capacity_test {
namespace {

constexpr std::size_t region_words = 65536 / sizeof(std::uint64_t);

const Session& session() {
  static const Session instance{"capacity=8M,workers=2;capacity=4M,workers=2"};
  return instance;
}

std::size_t capacity_of(int device) {
  std::size_t bytes = 0;
  WHERRY_TRY(cuDeviceTotalMem(&bytes, device));
  return bytes;
}

// Samples the size of every device's pool continuously until it is destroyed.
class Sampler {
 public:
  explicit Sampler(const Witness& witness) : witness_(witness) {
    thread_ = std::thread{[this] {
      while (!stop_.load()) {
        for (int i = 1; i < witness_.processors(); ++i) {
          const auto at = static_cast<std::size_t>(i);
          most_[at] = std::max(most_[at], witness_.pool_bytes(i));
          if (witness_.exceeds(i, capacity_of(i - 1))) exceeded_[at] = true;
        }
        ++samples_;
      }
    }};
  }
  void stop() {
    if (!thread_.joinable()) return;
    stop_.store(true);
    thread_.join();
  }
  ~Sampler() { stop(); }

  // The largest size seen. Requires: stop() has returned.
  std::uint64_t most(int device) const { return most_[1 + static_cast<std::size_t>(device)]; }
  // Whether the pool ever had more pages than its capacity. Requires: stop() has returned.
  bool exceeded(int device) const { return exceeded_[1 + static_cast<std::size_t>(device)]; }
  std::uint64_t samples() const { return samples_; }

 private:
  const Witness& witness_;
  std::atomic<bool> stop_{false};
  std::uint64_t samples_ = 0;
  std::array<std::uint64_t, WHERRY_MAX_PROCESSORS> most_{};
  std::array<bool, WHERRY_MAX_PROCESSORS> exceeded_{};
  std::thread thread_;
};

TEST_CASE("a pool never exceeds its capacity while its device works on four times as much",
          "[system]") {
  const Witness witness = (session(), Witness{});
  REQUIRE(capacity_of(0) == 8 * mebibyte);
  REQUIRE(capacity_of(1) == 4 * mebibyte);
  const auto passes = static_cast<std::uint64_t>(scaled(3));

  Sampler sampler{witness};
  const Managed<std::uint64_t> first{4 * capacity_of(0) / sizeof(std::uint64_t)};
  const Managed<std::uint64_t> second{4 * capacity_of(1) / sizeof(std::uint64_t)};
  for (std::uint64_t pass = 0; pass < passes; ++pass) {
    for (int device = 0; device < 2; ++device) {
      const Managed<std::uint64_t>& mine = device == 0 ? first : second;
      session().launch(device, mine.size() / region_words, [words = mine.data()](std::size_t i) {
        for (std::size_t n = i * region_words; n < (i + 1) * region_words; ++n) words[n] += n;
      });
    }
    WHERRY_TRY(session().wait(0));
    WHERRY_TRY(session().wait(1));
  }
  sampler.stop();

  CHECK(sampler.samples() > 0);
  CHECK(!sampler.exceeded(0));
  CHECK(!sampler.exceeded(1));
  CHECK(sampler.most(0) > capacity_of(0) / 2);  // the pool was used at all
  CHECK(read_stats().processor[1].evicted > 0);
  CHECK(read_stats().processor[2].evicted > 0);
  for (const auto* memory : {&first, &second}) {
    for (std::size_t n = 0; n < memory->size(); ++n)
      if ((*memory)[n] != passes * n) FAIL("word " << n << " is " << (*memory)[n]);
  }
}

TEST_CASE("one region in each of many blocks is enough to fill a pool, and to empty it again",
          "[system]") {
  const Witness witness = (session(), Witness{});
  constexpr std::size_t block = 2 * mebibyte;
  // One region of each block: 10 MiB, more than device 1 can hold.
  constexpr std::size_t blocks = 160;
  const Managed<std::byte> memory{blocks * block};
  Sampler sampler{witness};
  for (int pass = 1; pass <= 2; ++pass) {
    session().run(1, [start = memory.data()] {
      for (std::size_t i = 0; i < blocks; ++i) {
        for (std::size_t page = 0; page < 65536; page += 4096) {
          std::byte& place = start[i * block + (i % 31) * 65536 + page];
          place = static_cast<std::byte>(static_cast<unsigned>(place) + 1);
        }
      }
    });
  }
  sampler.stop();
  CHECK(!sampler.exceeded(1));
  for (std::size_t i = 0; i < blocks; ++i)
    if (memory[i * block + (i % 31) * 65536] != std::byte{2})
      FAIL("block " << i << " lost its page");
}

TEST_CASE("devices that hand more than their capacity to each other lose nothing", "[system]") {
  const Witness witness = (session(), Witness{});
  const Managed<std::uint64_t> memory{12 * mebibyte / sizeof(std::uint64_t)};
  Sampler sampler{witness};
  const auto rounds = static_cast<std::uint64_t>(scaled(4));
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (int device = 0; device < 2; ++device) {
      session().launch(
          device, memory.size() / region_words,
          [words = memory.data()](std::size_t i) { ++words[i * region_words + i % region_words]; });
      WHERRY_TRY(session().wait(device));
    }
  }
  sampler.stop();
  CHECK(!sampler.exceeded(0));
  CHECK(!sampler.exceeded(1));
  for (std::size_t i = 0; i < memory.size() / region_words; ++i)
    if (memory[i * region_words + i % region_words] != 2 * rounds)
      FAIL("region " << i << " lost an increment");
}

TEST_CASE("cuMemGetInfo says how much of the pool is unused", "[system]") {
  const Witness witness = (session(), Witness{});
  std::size_t unused = 0, total = 0;
  const Managed<std::byte> memory{2 * mebibyte};
  session().run(0, [start = memory.data()] {
    for (std::size_t i = 0; i < 2 * mebibyte; i += 4096) start[i] = std::byte{1};
  });
  WHERRY_TRY(cuMemGetInfo(&unused, &total));
  CHECK(total == capacity_of(0));
  CHECK(total - unused == witness.pool_bytes(1));
  CHECK(total - unused >= 2 * mebibyte);
}

}  // namespace
}  // namespace wherry::test::capacity_test
