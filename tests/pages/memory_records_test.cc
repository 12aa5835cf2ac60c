#include "pages/memory_records.h"

#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "base/page.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::memory_records_test {

using namespace wherry::impl;

namespace {

constexpr std::uintptr_t somewhere = 0x7f12'3400'0000;
constexpr std::size_t arena_bytes = std::size_t{1} << 40;

MemoryRecord record_at(std::uintptr_t base, std::size_t bytes, MemoryKind kind) {
  MemoryRecord record;
  record.base = record.device_base = base;
  record.bytes = bytes;
  record.kind = kind;
  return record;
}
bool any(const MemoryRecord&) {
  return true;
}

}  // namespace

TEST_CASE("a record is found with all its fields until it is removed") {
  MemoryRecords records(arena_bytes);
  MemoryRecord record = record_at(somewhere, 5000, MemoryKind::device);
  record.device = 3;
  record.flags = 77;
  record.context = &records;
  const auto id = records.insert(record);
  REQUIRE(id);
  const auto found = records.find(somewhere + 4999);
  REQUIRE(found);
  CHECK(found->base == somewhere);
  CHECK(found->bytes == 5000);
  CHECK(found->id == *id);
  CHECK(found->device == 3);
  CHECK(found->flags == 77);
  CHECK(found->context == &records);
  CHECK(records.sort_of(somewhere)->kind == MemoryKind::device);
  CHECK(records.sort_of(somewhere)->device == 3);
  CHECK_FALSE(records.find(somewhere + 5000));
  CHECK_FALSE(records.sort_of(somewhere + 5000));

  CHECK_FALSE(records.take(somewhere + 1, any));
  CHECK_FALSE(records.take(somewhere, [](const MemoryRecord&) { return false; }));
  CHECK(records.take(somewhere, any)->id == *id);
  CHECK_FALSE(records.take(somewhere, any));
  CHECK_FALSE(records.find(somewhere));
}

TEST_CASE("ids are never used twice") {
  MemoryRecords records(arena_bytes);
  std::set<std::uint64_t> ids;
  for (int i = 0; i < 100; ++i) {
    ids.insert(*records.insert(record_at(somewhere, 1, MemoryKind::managed)));
    records.take(somewhere, any);
  }
  CHECK(ids.size() == 100);
}

TEST_CASE("memory with a separate device address is found by either address") {
  MemoryRecords records(arena_bytes);
  MemoryRecord record = record_at(somewhere + 100, 10'000, MemoryKind::registered);
  record.device_base = somewhere + block_size + 100;
  REQUIRE(records.insert(record));
  for (const std::uintptr_t address : {record.base + 9'999, record.device_base + 9'999}) {
    const auto found = records.find(address);
    REQUIRE(found);
    CHECK(found->host_address(address) == record.base + 9'999);
    CHECK(found->device_address(address) == record.device_base + 9'999);
  }
  // Bytes of its first page before its start do not belong to it.
  CHECK_FALSE(records.find(somewhere + 99));
  CHECK_FALSE(records.sort_of(somewhere + 99));
  CHECK(records.sort_of(somewhere + 100));
  CHECK(records.take(record.base, any));
  CHECK_FALSE(records.find(record.device_base));
  CHECK(records.insert(record_at(somewhere + 12'000, 100, MemoryKind::registered)));
}

TEST_CASE("several pieces of registered memory may share a page, but no byte") {
  MemoryRecords records(arena_bytes);
  const auto piece = [](std::uintptr_t offset, std::size_t bytes) {
    return record_at(somewhere + offset, bytes, MemoryKind::registered);
  };
  const MemoryRecord all[] = {piece(100, 200), piece(400, 1), piece(4000, 20'000), piece(300, 50)};
  for (const MemoryRecord& each : all) {
    CHECK_FALSE(records.overlaps(each.base, each.bytes));
    REQUIRE(records.insert(each));
    CHECK(records.overlaps(each.base, each.bytes));
  }
  for (const MemoryRecord& each : all) {
    CHECK(records.find(each.base)->base == each.base);
    CHECK(records.find(each.base + each.bytes - 1)->base == each.base);
    CHECK(records.sort_of(each.base)->kind == MemoryKind::registered);
    CHECK_FALSE(records.insert(record_at(each.base + each.bytes - 1, 9, each.kind)));
  }
  for (const std::uintptr_t offset : {0, 99, 350, 399, 401, 3999, 24'000}) {
    CHECK_FALSE(records.find(somewhere + offset));
    CHECK_FALSE(records.sort_of(somewhere + offset));
  }
  CHECK_FALSE(records.overlaps(somewhere, 100));
  CHECK(records.overlaps(somewhere, 101));
  CHECK(records.is_taken(somewhere, 1));
  // The last page of the long piece can be shared, too.
  REQUIRE(records.insert(piece(24'000, 5000)));
  CHECK(records.find(somewhere + 23'999)->base == somewhere + 4000);
  CHECK(records.find(somewhere + 24'000)->base == somewhere + 24'000);
  CHECK(records.set_sync_memops(*records.find(somewhere + 300), true));
  CHECK(records.find(somewhere + 300)->sync_memops);
  CHECK_FALSE(records.find(somewhere + 100)->sync_memops);
  for (const std::size_t which : {2, 0, 3, 1}) {
    CHECK(records.take(all[which].base, any)->base == all[which].base);
    CHECK_FALSE(records.find(all[which].base));
    CHECK_FALSE(records.take(all[which].base, any));
  }
  CHECK(records.find(somewhere + 24'000));
  CHECK_FALSE(records.is_taken(somewhere, 20'000));
  REQUIRE(records.insert(piece(0, 24'000)));
  CHECK(records.find(somewhere + 23'999)->base == somewhere);
}

TEST_CASE("sync_memops changes for the intended record, and for no later one") {
  MemoryRecords records(arena_bytes);
  REQUIRE(records.insert(record_at(somewhere, 1, MemoryKind::device)));
  const auto first = *records.find(somewhere);
  CHECK(records.set_sync_memops(first, true));
  CHECK(records.find(somewhere)->sync_memops);
  records.take(somewhere, any);
  REQUIRE(records.insert(record_at(somewhere, 1, MemoryKind::device)));
  CHECK_FALSE(records.set_sync_memops(first, true));
  CHECK_FALSE(records.find(somewhere)->sync_memops);
}

TEST_CASE("a lookup returns one record, never parts of two successive ones") {
  MemoryRecords records(arena_bytes);
  std::atomic<bool> stop = false;
  std::atomic<int> mixed = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i)
    readers.emplace_back([&] {
      while (!stop)
        if (const auto found = records.find(somewhere))
          if (found->bytes != found->flags || found->mapping_pages != found->bytes) ++mixed;
    });
  std::mt19937_64 random(wherry::test::seed());
  for (std::uint64_t round = 0; round < wherry::test::scaled(50'000); ++round) {
    MemoryRecord record = record_at(somewhere, 1 + random() % 60'000, MemoryKind::host);
    record.flags = static_cast<std::uint16_t>(record.bytes);
    record.mapping_pages = record.bytes;
    REQUIRE(records.insert(record));
    records.set_sync_memops(*records.find(somewhere), round % 2 == 0);
    REQUIRE(records.take(somewhere, any));
  }
  stop = true;
  for (auto& reader : readers) reader.join();
  CHECK(mixed == 0);
}

}  // namespace wherry::test::memory_records_test
