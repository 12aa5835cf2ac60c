#include "pages/block.h"

#include <catch2/catch.hpp>

#include "pages/block_directory.h"

using namespace wherry::impl;

namespace {

constexpr Processor host = Processor::host();
constexpr Processor device = Processor::device(0);

}  // namespace

TEST_CASE("pages go from absent to populated to moved to released, and the books follow") {
  BlockDirectory blocks(4, 3);
  Block& block = blocks.at(2);
  const LockGuard guard(block.lock);
  CHECK(block.absent().count() == pages_per_block);
  block.populated(host, {10, 20});
  CHECK(block.residents(10) == host.bit());
  CHECK(block.residents(30) == 0);
  CHECK(block.mappers(29) == host.bit());
  block.moved(host, device, {10, 5});
  CHECK(block.residents(14) == device.bit());
  CHECK(block.residents(15) == host.bit());
  block.unmapped(device);
  CHECK(block.mappers(14) == 0);
  CHECK(block.residents(14) == device.bit());
  block.mapped(device, {10, 5});
  CHECK(block.mappers(14) == device.bit());
  block.check_invariants();
  block.released({0, 512});
  CHECK(block.absent().count() == pages_per_block);
}

TEST_CASE("a block exists from its first use on, and only then") {
  BlockDirectory blocks(1000, 3);
  CHECK(blocks.find(130) == nullptr);
  Block& block = blocks.at(130);
  CHECK(blocks.find(130) == &block);
  CHECK(&blocks.at(130) == &block);
  blocks.at(999);
  std::vector<std::uint64_t> used;
  blocks.for_each_used(0, 1000, [&](std::uint64_t number, Block&) { used.push_back(number); });
  CHECK(used == std::vector<std::uint64_t>{130, 999});
  used.clear();
  blocks.for_each_used(131, 999, [&](std::uint64_t number, Block&) { used.push_back(number); });
  CHECK(used.empty());
}

TEST_CASE("metadata is at most a thousandth of what it describes") {
  for (int processors = 2; processors <= max_processors; ++processors)
    CHECK(BlockDirectory(1, processors).bytes_per_block() * 1000 <= block_size);
}
