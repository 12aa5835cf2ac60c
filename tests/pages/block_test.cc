#include "pages/block.h"

#include <mutex>

#include "pages/block_directory.h"
#include "support/catch.h"

namespace wherry::test::block_test {

using namespace wherry::impl;

namespace {

constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);

}  // namespace

TEST_CASE("pages become absent, populated, moved and released, and the page state follows") {
  BlockDirectory blocks(4, 3);
  Block& block = blocks.at({2});
  const LockGuard guard(block.lock);
  CHECK(block.absent().count() == pages_per_block);
  block.populated(host, {10, 20});
  CHECK(block.residents(10) == host.bit());
  CHECK(block.residents(30) == 0);
  CHECK(block.mappers(29) == 0);
  block.mapped(host, {10, 20}, true);
  CHECK(block.mappers(29) == host.bit());
  CHECK(block.writers(29) == host.bit());
  block.moved(host, device, {10, 5});
  CHECK(block.residents(14) == device.bit());
  CHECK(block.residents(15) == host.bit());
  CHECK(block.mappers(14) == 0);
  block.mapped(device, {10, 5}, false);
  CHECK(block.mappers(14) == device.bit());
  CHECK(block.writers(14) == 0);
  block.writable(device, {10, 5});
  CHECK(block.writers(14) == device.bit());
  block.unmapped(device);
  CHECK(block.mappers(14) == 0);
  CHECK(block.residents(14) == device.bit());
  block.check_invariants();
  block.released({0, 512});
  CHECK(block.absent().count() == pages_per_block);
  CHECK(block.mappers(15) == 0);
}

TEST_CASE(
    "copies: several pools hold the page, it is write-protected, the last copy is owned again") {
  BlockDirectory blocks(1, 3);
  Block& block = blocks.at({0});
  const LockGuard guard(block.lock);
  block.populated(host, {0, 8});
  block.mapped(host, {0, 8}, true);
  block.write_protected(host, {0, 8});
  block.duplicated(device, {2, 4});
  block.mapped(device, {2, 4}, false);
  CHECK(block.residents(3) == (host.bit() | device.bit()));
  CHECK(block.writers(3) == 0);
  CHECK(block.resident_beside(host) == PageMask::of({2, 4}));
  block.check_invariants();
  block.dropped(host, {2, 4});
  CHECK(block.residents(3) == device.bit());
  CHECK(block.mappers(3) == device.bit());
  block.writable(device, {2, 4});
  CHECK(block.writers(3) == device.bit());
  block.check_invariants();
}

TEST_CASE("a foreign view: the page is mapped from the other pool until it leaves that pool") {
  BlockDirectory blocks(1, 3);
  Block& block = blocks.at({0});
  const LockGuard guard(block.lock);
  const Processor other = Processor::device(1);
  block.populated(host, {0, 16});
  CHECK(block.is_home(device, {0, 512}));
  block.switch_begun(device, {4, 4});
  CHECK_FALSE(block.is_home(device, {0, 16}));
  CHECK(block.view(device, 5) == device);
  block.switched(device, {4, 4}, host);
  CHECK(block.view(device, 5) == host);
  CHECK(block.view(device, 8) == device);
  CHECK(block.viewed(device, host) == PageMask::of({4, 4}));
  block.mapped(device, {4, 4}, true);
  CHECK(block.mapped_from(device, host) == PageMask::of({4, 4}));
  CHECK(block.mappers(5) == device.bit());
  block.check_invariants();
  block.moved(host, other, {5, 1});
  CHECK(block.mappers(5) == 0);
  CHECK(block.mappers(6) == device.bit());
  CHECK(block.view(device, 5) == host);  // the view stays, but no page is there
  block.switch_begun(device, {0, 16});
  block.switch_failed(device, {0, 16});
  CHECK(block.view(device, 6) == host);
  block.switch_begun(device, {4, 4});
  block.switched(device, {4, 4}, device);
  CHECK(block.is_home(device, {0, 512}));
  CHECK(block.mappers(6) == 0);
  block.check_invariants();
}

TEST_CASE("when a process ends, its entries and its foreign views are removed") {
  BlockDirectory blocks(1, 3);
  Block& block = blocks.at({0});
  const LockGuard guard(block.lock);
  block.populated(host, {0, 4});
  block.switch_begun(device, {0, 4});
  block.switched(device, {0, 4}, host);
  block.mapped(device, {0, 4}, true);
  block.unmapped(device);
  CHECK(block.is_home(device, {0, 4}));
  CHECK(block.mappers(0) == 0);
  block.check_invariants();
}

TEST_CASE("a block exists from its first use on") {
  BlockDirectory blocks(1000, 3);
  CHECK(blocks.find({130}) == nullptr);
  Block& block = blocks.at({130});
  CHECK(blocks.find({130}) == &block);
  CHECK(&blocks.at({130}) == &block);
  blocks.at({999});
  std::vector<std::uint64_t> used;
  blocks.for_each_used([&](BlockIndex block, Block&) { used.push_back(block.value); });
  CHECK(used == std::vector<std::uint64_t>{130, 999});
  used.clear();
  blocks.for_each_used({131}, {999},
                       [&](BlockIndex block, Block&) { used.push_back(block.value); });
  CHECK(used.empty());
}

TEST_CASE("a walk over many blocks finds exactly the used ones") {
  constexpr std::uint64_t count = 100'000;
  BlockDirectory blocks(count, 2);
  std::vector<std::uint64_t> expected;
  for (std::uint64_t number = 0; number < count; number = number * 2 + 61) {
    blocks.at({number});
    expected.push_back(number);
  }
  blocks.at({count - 1});
  expected.push_back(count - 1);
  std::vector<std::uint64_t> used;
  const auto collect = [&](BlockIndex block, Block&) { used.push_back(block.value); };
  blocks.for_each_used(collect);
  CHECK(used == expected);
  for (const std::uint64_t number : expected) {
    used.clear();
    blocks.for_each_used({number}, {number + 1}, collect);
    CHECK(used == std::vector<std::uint64_t>{number});
    used.clear();
    blocks.for_each_used({number + 1}, {std::min(number + 60, count - 1)}, collect);
    CHECK(used.empty());
  }
}

TEST_CASE("metadata takes at most a thousandth of the memory that it describes") {
  // On arm64 a mutex has 48 bytes and not 40, which is a line more.
  constexpr std::size_t lines_more = sizeof(std::mutex) > 40 ? 1 : 0;
  for (int processors = 2; processors <= max_processors; ++processors)
    CHECK((BlockDirectory(1, processors).bytes_per_block() - 64 * lines_more) * 1000 <= block_size);
}

}  // namespace wherry::test::block_test
