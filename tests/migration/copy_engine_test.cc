// Copies on a simulated machine: the copied bytes, where pages are afterwards, and that nothing is
// lost when steps fail or pages move meanwhile.
#include "migration/copy_engine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <future>
#include <random>

#include "os/files/file_io.h"
#include "os/files/memory_file.h"
#include "policy/fixed_policies.h"
#include "support/catch.h"
#include "support/service_setup.h"

namespace wherry::test::copy_engine_test {
namespace {

constexpr std::uint64_t blocks = 8;
constexpr std::uint64_t pages = blocks * pages_per_block;
using Memory = CopyRequest::Memory;
using Side = CopyRequest::Side;

struct Setup : ServiceSetup<MigrateAlways> {
  explicit Setup(std::uint64_t capacity_pages = pages)
      : ServiceSetup(blocks, capacity_pages, /*knows_pins=*/true, /*region_pages=*/1) {
    switcher.start();
    copiers.start();
  }

  Copiers copiers{[this](unsigned) { return std::make_unique<FakeBackend>(backend_state); },
                  Copiers::Limits{2}};
  CopyEngine copies{{engine, machine.blocks(), address_space, effects, evictor, copiers},
                    [this] { return std::make_unique<FakeBackend>(backend_state); }};

  // Copies by this thread or by copiers.
  OpStatus copy(const CopyRequest& request, bool with_copiers) {
    if (!with_copiers) return copies.copy(request);
    std::promise<OpStatus> done;
    copies.submit(request, [&](OpStatus status) { done.set_value(status); });
    auto result = done.get_future();
    REQUIRE(result.wait_for(std::chrono::minutes(1)) == std::future_status::ready);
    return result.get();
  }
  ProcessorMask residents(PageIndex page) {
    Block& block = machine.blocks().at(block_of(page));
    const LockGuard guard(block.lock);
    return block.residents(page_in_block(page));
  }
  // The bytes that a processor would read.
  std::vector<std::byte> look(std::uint64_t offset, std::size_t bytes) {
    std::vector<std::byte> seen(bytes);
    for (std::size_t begin = 0, end = 0; begin < bytes; begin = end) {
      const PageIndex page = page_at_offset(offset + begin);
      end = std::min<std::size_t>(bytes, offset_of(page + 1) - offset);
      const ProcessorMask where = residents(page);
      if (where == 0) continue;
      const std::byte* alias = machine.at(std::countr_zero(where)).alias({0});
      std::copy_n(alias + offset + begin, end - begin, &seen[begin]);
    }
    return seen;
  }
};

Side managed(std::uint64_t offset) {
  Side side{Memory::managed, offset};
  side.allocation = 1;  // the id of the only allocation
  return side;
}
Side memory(const std::vector<std::byte>& bytes) {
  return {Memory::host, reinterpret_cast<std::uint64_t>(bytes.data())};
}

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i) values[i] = static_cast<std::byte>(i * 7 + i / 4096 + 3);
  return values;
}

CopyRequest row(Side to, Side from, std::uint64_t bytes, Processor home = device) {
  CopyRequest request{.to = to,
                      .from = from,
                      .pattern = nullptr,
                      .width = bytes,
                      .rows = 1,
                      .layers = 1,
                      .home = home};
  return request;
}

}  // namespace

// Two pools have a copy of each page of block 0, in each pool as one huge page.
TEST_CASE("a copy to pages that have copies changes all of them, or drops them") {
  const bool with_copiers = GENERATE(false, true);
  Setup s;
  const PageSpan block{{0}, pages_per_block};
  for (unsigned page = 0; page < pages_per_block; ++page) s.touch(host, {page});
  s.advice.change(block, {AdviceChange::Kind::set_read_mostly, {}});
  for (unsigned page = 0; page < pages_per_block; ++page) s.touch(device, {page}, false);
  REQUIRE(s.residents({40}) == (host.bit() | device.bit()));
  const auto data = numbered(4 * page_size);
  const CopyRequest request = row(managed(40 * page_size), memory(data), data.size());

  SECTION("while other pages of the huge page are in flight") {
    s.machine.at(0).make_huge(BlockIndex{0}, /*held=*/false);
    s.machine.at(1).make_huge(BlockIndex{0}, /*held=*/false);
    {
      const LockedBlock locked(BlockIndex{0}, s.machine.blocks().at(BlockIndex{0}));
      s.engine.begin_byte_transfer(locked, PageMask::of({200, 8}));
    }
    auto done = std::async(std::launch::async, [&] { return s.copy(request, with_copiers); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    {
      const LockedBlock locked(BlockIndex{0}, s.machine.blocks().at(BlockIndex{0}));
      s.engine.end_byte_transfer(locked, PageMask::of({200, 8}));
    }
    s.engine.transfers().announce();
    CHECK(done.get() == OpStatus::ok);
  }
  SECTION("while somebody holds pinned pages of the huge page") {
    s.advice.change({{100}, 1}, {AdviceChange::Kind::pinned, {}});
    const int owner = GENERATE(0, 1);
    s.machine.at(owner).make_huge(BlockIndex{0}, /*held=*/true);
    CHECK(s.copy(request, with_copiers) == OpStatus::ok);
    CHECK(s.machine.at(owner).holds({40}));
  }
  for (PageIndex page{40}; page < PageIndex{44}; ++page)
    CHECK(std::has_single_bit(s.residents(page)));
  CHECK((s.look(40 * page_size, data.size()) == data));
  s.check_page_state();
}

TEST_CASE("copies do not move pages, and create missing ones at the request's home") {
  const bool with_copiers = GENERATE(false, true);
  Setup s;
  s.touch(host, {10});
  s.touch(other_device, {11});
  const auto data = numbered(4 * page_size);
  // Covers pages 9 to 13, of which 10 and 11 exist.
  CHECK(s.copy(row(managed(9 * page_size + 100), memory(data), data.size()), with_copiers) ==
        OpStatus::ok);
  CHECK(s.residents({9}) == device.bit());
  CHECK(s.residents({10}) == host.bit());
  CHECK(s.residents({11}) == other_device.bit());
  CHECK(s.residents({13}) == device.bit());
  CHECK(s.look(9 * page_size + 100, data.size()) == data);

  std::vector<std::byte> back(data.size());
  CHECK(s.copy(row(memory(back), managed(9 * page_size + 100), back.size()), with_copiers) ==
        OpStatus::ok);
  CHECK(back == data);
  CHECK(s.residents({10}) == host.bit());
  s.check_page_state();
}

TEST_CASE("absent pages are read as zeros and stay absent") {
  const bool with_copiers = GENERATE(false, true);
  Setup s;
  s.touch(device, {1});
  s.machine.at(device.index).set_value({1}, 42);
  std::vector<std::byte> back(3 * page_size, std::byte{9});
  CHECK(s.copy(row(memory(back), managed(0), back.size()), with_copiers) == OpStatus::ok);
  std::vector<std::byte> wanted(back.size());
  wanted[page_size] = std::byte{42};
  CHECK(back == wanted);
  CHECK(s.residents({0}) == 0);
  CHECK(s.residents({2}) == 0);
  s.check_page_state();
}

TEST_CASE("a written page has one copy afterwards, and a read page keeps its copies") {
  Setup s;
  s.advice.change({{0}, 4}, {AdviceChange::Kind::set_read_mostly, {}});
  s.touch(host, {1});
  s.touch(device, {1}, false);
  REQUIRE(s.residents({1}) == (host.bit() | device.bit()));
  std::vector<std::byte> bytes(100);
  CHECK(s.copy(row(memory(bytes), managed(page_size), 100), false) == OpStatus::ok);
  CHECK(s.residents({1}) == (host.bit() | device.bit()));
  CHECK(s.copy(row(managed(page_size), memory(bytes), 100), false) == OpStatus::ok);
  CHECK(s.residents({1}) == device.bit());
  s.check_page_state();
}

TEST_CASE("pages are created where they are preferred, and on the host where a device is full") {
  Setup s(/*capacity_pages=*/2);
  const auto data = numbered(4 * page_size);
  s.advice.change({{600}, 1}, {AdviceChange::Kind::set_preferred, Location::host()});
  CHECK(s.copy(row(managed(600 * page_size), memory(data), 2 * page_size), false) == OpStatus::ok);
  CHECK(s.residents({600}) == host.bit());
  CHECK(s.residents({601}) == device.bit());
  s.advice.change({{0}, 3}, {AdviceChange::Kind::pinned, {}});
  CHECK(s.copy(row(managed(0), memory(data), 4 * page_size), false) == OpStatus::ok);
  CHECK(s.look(0, 4 * page_size) == data);
  s.check_page_state();
}

TEST_CASE("pages are created in any pool with space if home and host are full") {
  const bool with_copiers = GENERATE(false, true);
  Setup s(/*capacity_pages=*/8);
  s.advice.change({{512}, 8}, {AdviceChange::Kind::pinned, {}});
  for (std::uint64_t page = 512; page < 520; ++page) s.touch(device, {page});
  Reservation hosts;
  Capacity& at_host = s.machine.memory(host.index).capacity;
  const std::uint64_t left = GENERATE(0, 3);
  REQUIRE(hosts.try_grow(at_host, at_host.pages() - left));
  const auto data = numbered((8 + left) * page_size);
  CHECK(s.copy(row(managed(0), memory(data), data.size()), with_copiers) == OpStatus::ok);
  CHECK(s.machine.at(host.index).held() == left);
  CHECK(s.machine.at(device.index).held() == 8);
  CHECK(s.machine.at(other_device.index).held() == 8);
  CHECK(s.look(0, data.size()) == data);
  // Now no pool has space.
  CHECK(s.copy(row(managed(100 * page_size), memory(data), page_size), with_copiers) ==
        OpStatus::no_memory);
  CHECK(s.residents({100}) == 0);
  s.check_page_state();
}

TEST_CASE("a copy that prefers a full host is created at a device with space") {
  Setup s;
  Reservation hosts;
  Capacity& at_host = s.machine.memory(host.index).capacity;
  REQUIRE(hosts.try_grow(at_host, at_host.pages()));
  const auto data = numbered(4 * page_size);
  CHECK(s.copy(row(managed(0), memory(data), data.size(), host), false) == OpStatus::ok);
  CHECK(s.machine.at(host.index).held() == 0);
  CHECK(s.look(0, data.size()) == data);
  s.check_page_state();
}

TEST_CASE("rows of any pitch are copied, and no byte beside them changes") {
  const bool with_copiers = GENERATE(false, true);
  std::mt19937 random(17);
  for (int round = 0; round < 20; ++round) {
    Setup s;
    const auto pick = [&](unsigned most) { return random() % most; };
    CopyRequest request;
    request.width = 1 + pick(9000);
    request.rows = 1 + pick(12);
    request.layers = 1 + pick(3);
    request.home = Processor{static_cast<int>(pick(3))};
    for (Side* side : {&request.to, &request.from}) {
      side->pitch = request.width + (pick(2) ? pick(500) : 0);
      side->layer = side->pitch * request.rows + (pick(2) ? pick(5000) : 0);
    }
    // Crosses block boundaries.
    request.to.memory = request.from.memory = Memory::managed;
    request.to.allocation = request.from.allocation = s.whole.id;
    request.to.start = block_size - pick(20000);
    request.from.start = 5 * block_size - pick(20000);
    const std::uint64_t reach = request.layers * request.to.layer + 5000;
    const auto data = numbered(request.layers * request.from.layer);
    CHECK(s.copy(row(managed(request.from.start), memory(data), data.size(),
                     Processor{static_cast<int>(pick(3))}),
                 with_copiers) == OpStatus::ok);
    auto wanted = s.look(request.to.start, reach);
    for (std::uint64_t l = 0; l < request.layers; ++l)
      for (std::uint64_t r = 0; r < request.rows; ++r)
        std::copy_n(&data[l * request.from.layer + r * request.from.pitch], request.width,
                    &wanted[l * request.to.layer + r * request.to.pitch]);
    CHECK(s.copy(request, with_copiers) == OpStatus::ok);
    CHECK(s.look(request.to.start, reach) == wanted);
    s.check_page_state();
  }
}

TEST_CASE("a copy inside one block, and inside one page, holds each page once") {
  Setup s;
  const auto data = numbered(3 * page_size);
  CHECK(s.copy(row(managed(0), memory(data), data.size()), false) == OpStatus::ok);
  CHECK(s.copy(row(managed(6 * page_size), managed(100), 2 * page_size), false) == OpStatus::ok);
  CHECK(s.look(6 * page_size, 2 * page_size) ==
        std::vector<std::byte>(data.begin() + 100, data.begin() + 100 + 2 * page_size));
  CHECK(s.copy(row(managed(50), managed(2000), 1000), false) == OpStatus::ok);
  CHECK(s.look(50, 1000) == std::vector<std::byte>(data.begin() + 2000, data.begin() + 3000));
  s.check_page_state();
}

TEST_CASE(
    "copied pages stay where they are, and are in no transfer afterwards, even after failures") {
  Setup s;
  const auto data = numbered(page_size);
  bool in_flight = false;
  s.backend_state.during_byte_transfer = [&](const ByteTransfer&) {
    Block& block = s.machine.blocks().at({0});
    const LockGuard guard(block.lock);
    in_flight = block.in_flight().test(3);
  };
  s.backend_state.mishaps = {{OpStatus::incomplete}, {OpStatus::incomplete}};
  CHECK(s.copy(row(managed(3 * page_size), memory(data), data.size()), false) == OpStatus::ok);
  CHECK(in_flight);
  CHECK(s.look(3 * page_size, data.size()) == data);
  s.backend_state.mishaps = {
      {OpStatus::incomplete}, {OpStatus::incomplete}, {OpStatus::incomplete}};
  CHECK(s.copy(row(managed(3 * page_size), memory(data), data.size()), false) ==
        OpStatus::bad_address);
  s.backend_state.mishaps = {{OpStatus::bad_address}};
  CHECK(s.copy(row(managed(3 * page_size), memory(data), data.size()), true) ==
        OpStatus::bad_address);
  s.check_page_state();
}

TEST_CASE("freed memory is not copied, and no pages are created in it") {
  const bool with_copiers = GENERATE(false, true);
  Setup s;
  const auto data = numbered(4 * page_size);
  REQUIRE(s.address_space.begin_free(s.whole.offset));
  CHECK(s.copy(row(managed(0), memory(data), data.size()), with_copiers) == OpStatus::bad_address);
  s.address_space.end_free(s.whole);
  // Now another allocation is there.
  REQUIRE(s.address_space.allocate(blocks * block_size, 0));
  CHECK(s.copy(row(managed(0), memory(data), data.size()), with_copiers) == OpStatus::bad_address);
  Side own = managed(block_size);
  own.memory = Memory::device;
  own.owner = device;
  CHECK(s.copy(row(own, memory(data), data.size()), with_copiers) == OpStatus::bad_address);
  CHECK(s.backend_state.transfers == 0);
  for (int p = 0; p < 3; ++p) CHECK(s.machine.at(p).held() == 0);
  s.check_page_state();
}

TEST_CASE(
    "memory is in use from before its pages are created until they are copied, piece by piece") {
  Setup s;
  const auto data = numbered(2 * block_size);
  bool used_at_creation = false;
  bool used_during_transfer = false;
  s.machine.before = [&](const std::string& operation, Processor, PageSpan) {
    if (operation == "fill") used_at_creation = s.address_space.is_in_use(s.whole);
  };
  // The memory is freed while the first piece is copied; the second piece is not begun.
  s.backend_state.during_byte_transfer = [&](const ByteTransfer&) {
    used_during_transfer = s.address_space.is_in_use(s.whole);
    if (s.backend_state.transfers == 0) CHECK(s.address_space.begin_free(s.whole.offset));
  };
  CHECK(s.copy(row(managed(0), memory(data), data.size()), false) == OpStatus::bad_address);
  CHECK(used_at_creation);
  CHECK(used_during_transfer);
  CHECK_FALSE(s.address_space.is_in_use(s.whole));
  CHECK(s.machine.at(device.index).held() == pages_per_block);
  s.check_page_state();
}

TEST_CASE("copies in opposite directions complete while others move the pages") {
  Setup s;
  const auto data = numbered(64 * page_size);
  const std::uint64_t far = 3 * block_size;
  REQUIRE(s.copy(row(managed(0), memory(data), data.size()), false) == OpStatus::ok);
  REQUIRE(s.copy(row(managed(far), memory(data), data.size()), false) == OpStatus::ok);
  std::atomic<bool> stop{false};
  std::thread mover([&] {
    std::mt19937 random(5);
    while (!stop)
      s.touch(Processor{static_cast<int>(random() % 3)},
              {random() % 64 + (random() % 2) * (far / page_size)}, random() % 2 != 0);
  });
  const auto to_and_fro = [&](std::uint64_t to, std::uint64_t from) {
    int failures = 0;
    for (int i = 0; i < 20; ++i)
      if (s.copies.copy(row(managed(to), managed(from), data.size())) != OpStatus::ok) ++failures;
    return failures;
  };
  auto one = std::async(std::launch::async, to_and_fro, 0, far);
  auto other = std::async(std::launch::async, to_and_fro, far, 0);
  CHECK(one.get() == 0);
  CHECK(other.get() == 0);
  stop = true;
  mover.join();
  CHECK(s.look(0, data.size()) == data);
  CHECK(s.look(far, data.size()) == data);
  s.check_page_state();
}

TEST_CASE("memory in files is copied in place, mapping by mapping") {
  const bool with_copiers = GENERATE(false, true);
  Setup s;
  // Two files, mapped one after the other and in reverse order, at addresses that are not block
  // boundaries.
  constexpr std::uint64_t seen_at = 0x7100'0000'0000;
  constexpr std::uint64_t mapping_bytes = 3 * block_size / 2;
  const auto make_file = [] {
    const impl::MemoryFile made("wherry-test-copies", 4 * block_size, impl::HugePages::never);
    return std::make_shared<const impl::Fd>(impl::duplicate_fd(made.fd()));
  };
  const auto one = make_file();
  const auto other = make_file();
  Side side{Memory::files, seen_at + 100};
  side.mappings =
      std::make_shared<const std::vector<impl::FileMapping>>(std::vector<impl::FileMapping>{
          {seen_at, mapping_bytes, other, 16 * page_size},
          {seen_at + mapping_bytes, mapping_bytes, one, block_size + page_size}});
  const auto data = numbered(2 * mapping_bytes - 200);
  CHECK(s.copy(row(side, memory(data), data.size()), with_copiers) == OpStatus::ok);
  std::vector<std::byte> in_file(100);
  REQUIRE(impl::read_at(other->get(), 16 * page_size + 100, in_file) == 100);
  CHECK(std::memcmp(in_file.data(), data.data(), 100) == 0);
  REQUIRE(impl::read_at(one->get(), block_size + page_size, in_file) == 100);
  CHECK(std::memcmp(in_file.data(), data.data() + mapping_bytes - 100, 100) == 0);

  CHECK(s.copy(row(managed(777), side, data.size()), with_copiers) == OpStatus::ok);
  CHECK(s.look(777, data.size()) == data);
  std::vector<std::byte> back(data.size());
  CHECK(s.copy(row(memory(back), side, back.size()), with_copiers) == OpStatus::ok);
  CHECK(back == data);
  s.check_page_state();
}

TEST_CASE("a pattern continues from piece to piece") {
  const bool with_copiers = GENERATE(false, true);
  Setup s;
  CopyRequest request;
  request.to = managed(block_size - 8);
  request.width = 3 * page_size;
  request.home = device;
  std::vector<std::byte> pattern(16);
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i % 4 + 1);
  request.pattern = std::make_shared<const std::vector<std::byte>>(pattern);
  CHECK(s.copy(request, with_copiers) == OpStatus::ok);
  const auto seen = s.look(request.to.start, request.width);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < seen.size(); ++i)
    if (seen[i] != static_cast<std::byte>(i % 4 + 1)) ++wrong;
  CHECK(wrong == 0);
  s.check_page_state();
}

}  // namespace wherry::test::copy_engine_test
