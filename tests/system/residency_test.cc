// After every kind of move Linux's pools and page tables agree with wherryGetPageState: each page
// exists exactly once, in the pool of the processor that accessed it last, and no other processor
// maps it.
#include <bit>
#include <cstring>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/session.h"
#include "support/waiting.h"
#include "support/witness.h"

namespace wherry::test::residency_test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t region = 16 * page;
constexpr std::size_t small_capacity = 4 * mebibyte;
constexpr int small_device = 2;  // the device that has to evict
constexpr std::uint32_t host_bit = 1;

const Session& session() {
  static const Session instance{"capacity=64M;capacity=64M;capacity=4M"};
  return instance;
}

const Witness& witness() {
  session();
  static const Witness instance;
  return instance;
}

bool frames_are_shown() {
  static const bool shown = [] {
    const auto hidden = why_missing("frame-numbers");
    if (hidden) WARN("frame numbers are not compared: " << *hidden);
    return !hidden;
  }();
  return shown;
}

// Checks that all sources agree that the page is at `where` alone (0: in no pool) and, if `mapped`,
// in that processor's page table.
void check_page(const void* address, std::uint32_t where, bool mapped = true) {
  const wherryPageState info = page_state(address);
  CHECK(info.resident == where);
  CHECK(witness().residents(address) == where);
  const std::uint32_t in_tables = mapped ? where : 0;
  CHECK(info.mapped_read == in_tables);
  CHECK(info.mapped_write == in_tables);
  // While Linux merges the pages of a block into a huge page, no page table has them for a moment,
  // which may begin after any look at the tables.
  std::uint32_t mappers = 0, writers = 0;
  (void)comes_true([&] {
    mappers = witness().mappers(address);
    writers = witness().writers(address);
    return mappers == in_tables && writers == in_tables;
  });
  CHECK(mappers == in_tables);
  CHECK(writers == in_tables);
  CHECK((info.node >= 0) == (where != 0));
  if (where == 0 || !mapped || !frames_are_shown()) return;
  const PageEntry entry = page_entry(Witness::process_of(std::countr_zero(where)), address);
  CHECK((entry.frame != 0) == entry.present);
}

void check_region(const std::byte* start, std::uint32_t where, bool mapped = true) {
  for (std::size_t offset = 0; offset < region; offset += page) {
    INFO("page " << offset / page << " of the region");
    check_page(start + offset, where, mapped);
  }
}

void write_on(int device, std::byte* place, std::byte value) {
  session().run(device, [=] { *place = value; });
}

// Reads the byte on the device.
std::byte read_on(int device, const std::byte* place) {
  const Managed<std::byte> answer{1};
  session().run(device, [place, to = answer.data()] { *to = *place; });
  return answer[0];
}

TEST_CASE("an allocation takes no page until it is touched", "[system]") {
  const std::uint64_t before = witness().pool_bytes(0);
  const Managed<std::byte> memory{64 * mebibyte};
  CHECK(witness().pool_bytes(0) == before);
  check_page(memory.data(), 0);
  check_page(memory.data() + memory.bytes() - 1, 0);
}

TEST_CASE("the host's first touch creates the page at the host", "[system]") {
  const Managed<std::byte> memory{4 * region};
  CHECK(memory[region + 5] == std::byte{0});
  check_page(memory.data(), 0);
  check_region(memory.data() + region, host_bit);
  check_page(memory.data() + 2 * region, 0);
}

TEST_CASE("a device's first touch creates the page at the device, zeroed", "[system]") {
  for (int device = 0; device < session().devices(); ++device) {
    const Managed<std::byte> memory{4 * region};
    CHECK(read_on(device, memory.data() + region) == std::byte{0});
    check_page(memory.data(), 0);
    check_region(memory.data() + region, bit_of(device));
    check_page(memory.data() + 2 * region, 0);
  }
}

TEST_CASE("a device's access moves the page and its region from the host", "[system]") {
  const Managed<std::byte> memory{2 * region};
  std::memset(memory.data(), 7, memory.bytes());
  check_region(memory.data(), host_bit);
  CHECK(read_on(0, memory.data() + 3 * page) == std::byte{7});
  check_region(memory.data(), bit_of(0));
  check_region(memory.data() + region, host_bit);
}

TEST_CASE("the host's access moves the page and its region from a device", "[system]") {
  const Managed<std::byte> memory{2 * region};
  session().run(0, [start = memory.data()] { std::memset(start, 9, 2 * region); });
  check_region(memory.data(), bit_of(0));
  CHECK(memory[15 * page] == std::byte{9});
  check_region(memory.data(), host_bit);
  check_region(memory.data() + region, bit_of(0));
}

TEST_CASE("one device's access moves the page and its region from another device", "[system]") {
  const Managed<std::byte> memory{region};
  write_on(0, memory.data() + 8, std::byte{3});
  write_on(1, memory.data() + 9, std::byte{4});
  check_region(memory.data(), bit_of(1));
  CHECK(read_on(0, memory.data() + 9) == std::byte{4});
  check_region(memory.data(), bit_of(0));
  CHECK(memory[8] == std::byte{3});
  check_region(memory.data(), host_bit);
}

TEST_CASE("pages that a fault brings along end where the allocation ends", "[system]") {
  const std::uint64_t before = witness().pool_bytes(0);
  const Managed<std::byte> first{3 * page + 1};   // four pages
  const Managed<std::byte> second{region + 100};  // a region and one page
  first[page] = std::byte{1};
  CHECK(witness().pool_bytes(0) == before + 4 * page);
  second[region + 50] = std::byte{1};
  CHECK(witness().pool_bytes(0) == before + 5 * page);
  check_page(second.data(), 0);
  check_page(second.data() + region, host_bit);
}

TEST_CASE("a full device evicts its oldest block to the host and keeps every byte", "[system]") {
  constexpr std::size_t block = 2 * mebibyte;
  const Managed<std::byte> memory{2 * small_capacity};
  const auto fill = [start = memory.data()](std::size_t offset, std::size_t bytes) {
    session().run(small_device, [=] {
      for (std::size_t i = offset; i < offset + bytes; ++i)
        start[i] = static_cast<std::byte>(i % 251);
    });
  };
  fill(0, small_capacity);
  check_page(memory.data(), bit_of(small_device));
  CHECK(witness().pool_bytes(1 + small_device) == small_capacity);
  fill(small_capacity, page);
  check_page(memory.data() + small_capacity, bit_of(small_device));
  // One region was needed: the oldest block was evicted, the next one stayed.
  check_page(memory.data(), host_bit, witness().mappers(memory.data()) != 0);
  check_page(memory.data() + block, bit_of(small_device));
  fill(small_capacity, small_capacity);
  CHECK(witness().used_bytes(1 + small_device) <= small_capacity);
  for (std::size_t i = 0; i < memory.bytes(); ++i) {
    if (memory[i] != static_cast<std::byte>(i % 251)) FAIL("byte " << i << " was lost");
  }
}

TEST_CASE("freed memory leaves every pool at once", "[system]") {
  std::vector<std::uint64_t> before;
  for (int i = 0; i < witness().processors(); ++i) before.push_back(witness().pool_bytes(i));
  {
    const Managed<std::byte> memory{3 * mebibyte};
    for (int device = 0; device < session().devices(); ++device)
      write_on(device, memory.data() + static_cast<std::size_t>(device) * region, std::byte{1});
    memory[mebibyte] = std::byte{1};
    CHECK(witness().pool_bytes(0) > before[0]);
  }
  for (int i = 0; i < witness().processors(); ++i) {
    INFO("processor " << i);
    CHECK(witness().pool_bytes(i) == before[static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("pages stay in a device's pool while its process is replaced", "[system]") {
  Session& mutable_session = const_cast<Session&>(session());
  const Managed<std::byte> memory{2 * region};
  session().run(1, [start = memory.data()] { std::memset(start, 5, 2 * region); });
  check_region(memory.data(), bit_of(1));
  const pid_t before = device_process(1);

  WHERRY_TRY(cuDevicePrimaryCtxReset(1));
  mutable_session.renew_stream(1);
  CHECK(device_process(1) != before);
  check_region(memory.data(), bit_of(1), false);

  const std::uint64_t minor = read_stats().processor[2].faults_minor;
  const std::uint64_t copied = read_stats().processor[2].bytes_copied;
  CHECK(read_on(1, memory.data() + page) == std::byte{5});
  CHECK(read_stats().processor[2].faults_minor > minor);
  CHECK(read_stats().processor[2].bytes_copied <=
        copied + page);  // the page of the answer, not this one
  check_page(memory.data() + page, bit_of(1));
  // The other half moves to the host, although the process that wrote it has ended.
  CHECK(memory[region] == std::byte{5});
  check_region(memory.data() + region, host_bit);
}

TEST_CASE("the counters count the pages that moved", "[system]") {
  const Managed<std::byte> memory{4 * region};
  std::memset(memory.data(), 1, memory.bytes());
  const wherryStats before = read_stats();
  session().run(0, [start = memory.data()] {
    for (std::size_t i = 0; i < 4 * region; i += page) start[i] = std::byte{2};
  });
  const wherryStats after = read_stats();
  const auto grown = [&](std::uint64_t wherryProcessorStats::*counter, int processor) {
    return after.processor[processor].*counter - before.processor[processor].*counter;
  };
  CHECK(grown(&wherryProcessorStats::migrated_in, 1) == 64);
  CHECK(grown(&wherryProcessorStats::migrated_out, 0) == 64);
  CHECK(grown(&wherryProcessorStats::bytes_copied, 1) == 4 * region);
  CHECK(grown(&wherryProcessorStats::faults_missing, 1) >= 4);
  CHECK(after.migrated_in - before.migrated_in == 64);
}

}  // namespace
}  // namespace wherry::test::residency_test
