// Transfers between real pools: what is copied, what is released, and what a failure leaves behind,
// with every copy backend.
#include "memory/copy_backend.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "os/memory/write_freeze.h"
#include "os/process/permissions.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/seccomp_filter.h"
#include "support/session.h"

namespace wherry::test::copy_backend_test {

using namespace wherry::impl;

namespace {

constexpr std::size_t arena_bytes = 16 * block_size;

using MakeBackend =
    std::unique_ptr<CopyBackend> (*)(std::span<const std::unique_ptr<SparsePoolFile>>, CopyMethod);

// Two pools, and a copy backend between them.
class Depot {
 public:
  Depot(MakeBackend make, CopyMethod method, HugePages huge) {
    for (const char* name : {"depot-a", "depot-b"})
      pools_.push_back(
          std::make_unique<SparsePoolFile>(name, arena_bytes, huge, permissions().userfaultfd()));
    backend_ = make(pools_, method);
  }

  SparsePoolFile& pool(int p) { return *pools_[static_cast<std::size_t>(p)]; }
  // Fills pages of pool 0, each with a value that depends on its number.
  void stock(PageSpan span) {
    std::vector<std::byte> data(span.bytes());
    for (std::uint64_t i = 0; i < span.count; ++i)
      std::memset(data.data() + i * page_size, value(span.first + i), page_size);
    REQUIRE(pool(0).fill(span, data.data()));
  }
  TransferResult transfer(PageTransfer::Kind kind, PageSpan span) {
    backend_->begin(0, {kind, span, Processor{0}, Processor{1}});
    return backend_->next();
  }
  OpStatus transfer(const ByteTransfer& transfer) {
    backend_->begin(0, transfer);
    return backend_->next().status;
  }
  CopyBackend& backend() { return *backend_; }

  std::uint64_t pages(int p) { return allocated_bytes(pool(p).file().fd_at(0)) / page_size; }
  bool holds(int p, PageIndex page) {
    const auto offset = static_cast<off_t>(offset_of(page));
    return ::lseek(pool(p).file().fd_at(0), offset, SEEK_DATA) == offset;
  }
  bool has_value(int p, PageIndex page, int wanted) {
    const std::byte* data = pool(p).alias(page);
    for (std::size_t i = 0; i < page_size; ++i)
      if (data[i] != static_cast<std::byte>(wanted)) return false;
    return true;
  }
  static int value(PageIndex page) { return static_cast<int>(page.value % 251 + 1); }

 private:
  std::vector<std::unique_ptr<SparsePoolFile>> pools_;
  std::unique_ptr<CopyBackend> backend_;
};

struct Way {
  const char* name;
  MakeBackend make;
  CopyMethod method;
  HugePages huge;
};
const Way ways[] = {
    {"ring, writing, huge", make_copy_backend, CopyMethod::write, HugePages::if_possible},
    {"ring, reading, huge", make_copy_backend, CopyMethod::read, HugePages::if_possible},
    {"ring, writing", make_copy_backend, CopyMethod::write, HugePages::never},
    {"ring, reading", make_copy_backend, CopyMethod::read, HugePages::never},
    {"plain, writing, huge", make_plain_backend, CopyMethod::write, HugePages::if_possible},
    {"plain, reading, huge", make_plain_backend, CopyMethod::read, HugePages::if_possible},
    {"plain, writing", make_plain_backend, CopyMethod::write, HugePages::never},
    {"plain, reading", make_plain_backend, CopyMethod::read, HugePages::never},
};

// A whole block, and parts of one at arbitrary positions.
const PageSpan spans[] = {{{512}, 512}, {{512}, 32}, {{530}, 100}, {{1000}, 24}, {{1023}, 1}};

// Calls body(depot, span) for each way and span, with an empty depot.
template <typename Body>
void with_each_span(const Body& body) {
  for (const Way& way : ways)
    for (const PageSpan span : spans) {
      INFO(way.name << ", pages " << span.first.value << "+" << span.count);
      Depot depot(way.make, way.method, way.huge);
      body(depot, span);
    }
}
// Calls body(depot, bytes) for each way and some sizes, with a depot that has block 1 in pool 0.
template <typename Body>
void with_each_size(const Body& body) {
  for (const Way& way : ways)
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{10'000}, 100 * page_size + 7}) {
      INFO(way.name << ", " << bytes << " bytes");
      Depot depot(way.make, way.method, way.huge);
      depot.stock({{512}, 512});
      body(depot, bytes);
    }
}

}  // namespace

TEST_CASE("moved pages are in the target's pool, and whole folios are gone from the source") {
  with_each_span([](Depot& depot, PageSpan span) {
    depot.stock({{512}, 512});
    const TransferResult outcome = depot.transfer(PageTransfer::Kind::move, span);
    REQUIRE(outcome.status == OpStatus::ok);
    // A part of a huge page must be split from it first, which is the page engine's task.
    const bool whole = span.count == pages_per_block;
    const bool leaves = whole || !depot.pool(0).file().has_huge_pages();
    CHECK(outcome.released == leaves);
    CHECK(depot.pages(0) == 512 - (leaves ? span.count : 0));
    CHECK(depot.pages(1) == span.count);
    for (PageIndex page{512}; page < PageIndex{1024}; ++page) {
      const bool moved = span.contains(page);
      CHECK(depot.holds(1, page) == moved);
      CHECK(depot.holds(0, page) == !(moved && leaves));
      CHECK(depot.has_value(moved ? 1 : 0, page, Depot::value(page)));
      if (moved && !leaves) CHECK(depot.has_value(0, page, Depot::value(page)));
    }
  });
}

TEST_CASE("copied pages are in both pools") {
  with_each_span([](Depot& depot, PageSpan span) {
    depot.stock({{512}, 512});
    const TransferResult outcome = depot.transfer(PageTransfer::Kind::copy, span);
    REQUIRE(outcome.status == OpStatus::ok);
    CHECK_FALSE(outcome.released);
    CHECK(depot.pages(0) == 512);
    CHECK(depot.pages(1) == span.count);
    for (PageIndex page = span.first; page < span.end(); ++page) {
      CHECK(depot.has_value(0, page, Depot::value(page)));
      CHECK(depot.has_value(1, page, Depot::value(page)));
    }
  });
}

TEST_CASE("a byte transfer copies its bytes, and no others, from and to pools and memory") {
  constexpr std::uint64_t start = 600 * page_size + 123;
  with_each_size([](Depot& depot, std::size_t bytes) {
    std::vector<std::byte> there(bytes + 2, std::byte{0xee});
    const auto in_pool = [](int p, std::uint64_t offset) {
      return ByteTransfer::InPool{Processor{p}, offset};
    };
    const auto byte_of = [](std::uint64_t offset) {
      return static_cast<std::byte>(Depot::value(page_at_offset(offset)));
    };
    REQUIRE(depot.transfer({there.data() + 1, in_pool(0, start), bytes}) == OpStatus::ok);
    CHECK(there.front() == std::byte{0xee});
    CHECK(there.back() == std::byte{0xee});
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bytes; ++i) wrong += there[i + 1] != byte_of(start + i);
    CHECK(wrong == 0);
    // Into existing pages: from memory, and from the other pool.
    REQUIRE(depot.pool(1).fill_zero({{512}, 512}));
    for (const std::uint64_t to : {start + 1, start + block_size / 4}) {
      const ByteTransfer::Place from = to == start + 1 ? ByteTransfer::Place(there.data() + 1)
                                                       : ByteTransfer::Place(in_pool(0, start));
      REQUIRE(depot.transfer({in_pool(1, to), from, bytes}) == OpStatus::ok);
      const std::byte* const seen = depot.pool(1).alias({0});
      CHECK(seen[to - 1] == std::byte{0});
      CHECK(seen[to + bytes] == std::byte{0});
      CHECK(std::memcmp(seen + to, there.data() + 1, bytes) == 0);
    }
    std::vector<std::byte> copy(bytes);
    REQUIRE(depot.transfer({copy.data(), there.data() + 1, bytes}) == OpStatus::ok);
    CHECK(std::memcmp(copy.data(), there.data() + 1, bytes) == 0);
    CHECK(depot.pages(0) == 512);
    CHECK(depot.pages(1) == 512);
    // Addresses without memory.
    std::byte* const nowhere = reinterpret_cast<std::byte*>(page_size);
    CHECK(depot.transfer({nowhere, in_pool(0, start), bytes}) == OpStatus::bad_address);
    CHECK(depot.transfer({in_pool(1, start), nowhere, bytes}) == OpStatus::bad_address);
    CHECK(depot.transfer({nowhere, there.data(), bytes}) == OpStatus::bad_address);
    CHECK(depot.transfer({copy.data(), nowhere, bytes}) == OpStatus::bad_address);
  });
}

TEST_CASE("a byte transfer copies from and to files that are not pools") {
  constexpr std::uint64_t start = 600 * page_size + 123;
  with_each_size([](Depot& depot, std::size_t bytes) {
    REQUIRE(depot.pool(1).fill_zero({{512}, 512}));
    const MemoryFile file("depot-file", arena_bytes, HugePages::never);
    REQUIRE(file.allocate(512 * page_size, block_size) == 0);
    const ByteTransfer::Place in_file = ByteTransfer::InFile{file.fd(), start + 5};
    std::vector<std::byte> seen(bytes + 2, std::byte{0xee});
    REQUIRE(depot.transfer({in_file, ByteTransfer::InPool{Processor{0}, start}, bytes}) ==
            OpStatus::ok);
    REQUIRE(depot.transfer({seen.data() + 1, in_file, bytes}) == OpStatus::ok);
    CHECK(seen.front() == std::byte{0xee});
    CHECK(seen.back() == std::byte{0xee});
    CHECK(std::memcmp(seen.data() + 1, depot.pool(0).alias({0}) + start, bytes) == 0);
    // From the file into a pool, and from memory into the file.
    REQUIRE(depot.transfer({ByteTransfer::InPool{Processor{1}, start}, in_file, bytes}) ==
            OpStatus::ok);
    CHECK(std::memcmp(depot.pool(1).alias({0}) + start, seen.data() + 1, bytes) == 0);
    const std::vector<std::byte> other(bytes, std::byte{0x5a});
    REQUIRE(depot.transfer({in_file, const_cast<std::byte*>(other.data()), bytes}) == OpStatus::ok);
    REQUIRE(depot.transfer({seen.data() + 1, in_file, bytes}) == OpStatus::ok);
    CHECK(std::memcmp(seen.data() + 1, other.data(), bytes) == 0);
    CHECK(allocated_bytes(file.fd()) == block_size);
  });
}

TEST_CASE("created pages are zero, completely and alone") {
  with_each_span([](Depot& depot, PageSpan span) {
    const TransferResult outcome = depot.transfer(PageTransfer::Kind::create, span);
    REQUIRE(outcome.status == OpStatus::ok);
    CHECK(depot.pages(0) == 0);
    CHECK(depot.pages(1) == span.count);
    for (PageIndex page = span.first; page < span.end(); ++page) CHECK(depot.has_value(1, page, 0));
  });
}

TEST_CASE("a whole block arrives as one huge page where pools have huge pages, and can be split") {
  for (const Way& way : ways) {
    INFO(way.name);
    Depot depot(way.make, way.method, way.huge);
    if (!depot.pool(1).file().has_huge_pages()) continue;
    depot.stock({{512}, 512});
    REQUIRE(depot.transfer(PageTransfer::Kind::move, {{512}, 512}).status == OpStatus::ok);
    REQUIRE(depot.pool(1).punch({{700}, 16}) == 0);
    CHECK(depot.pages(1) == 512 - 16);
    CHECK(depot.has_value(1, {699}, Depot::value({699})));
    CHECK(depot.has_value(1, {716}, Depot::value({716})));
    CHECK_FALSE(depot.holds(1, {700}));
  }
}

TEST_CASE("simultaneous transfers do not affect each other") {
  Depot depot(make_copy_backend, CopyMethod::write, HugePages::if_possible);
  CopyBackend& backend = depot.backend();
  const unsigned slots = backend.slots();
  for (unsigned slot = 0; slot < slots; ++slot) {
    const PageSpan span = block_span({1 + slot});
    depot.stock(span);
    backend.begin(slot, {PageTransfer::Kind::move, span, Processor{0}, Processor{1}});
  }
  std::vector<bool> arrived(slots);
  for (unsigned i = 0; i < slots; ++i) {
    const TransferResult outcome = backend.next();
    CHECK(outcome.status == OpStatus::ok);
    CHECK_FALSE(arrived[outcome.slot]);
    arrived[outcome.slot] = true;
  }
  CHECK(depot.pages(0) == 0);
  CHECK(depot.pages(1) == slots * pages_per_block);
}

TEST_CASE("a byte transfer to memory whose writes are frozen completes when the freeze ends") {
  std::vector<std::optional<UffdAccess>> accesses{std::nullopt};
  if (permissions().userfaultfd()) accesses.push_back(UffdAccess::user_mode_only);
  constexpr std::size_t bytes = 4 * page_size;
  for (const Way& way : ways)
    for (const std::optional<UffdAccess> access : accesses)
      for (const bool from_pool : {true, false}) {
        INFO(way.name << ", frozen by " << (access ? "userfaultfd" : "page protection"));
        Depot depot(way.make, way.method, way.huge);
        depot.stock({{512}, 512});
        const Mapping target = Mapping::zeroed(bytes);
        std::memset(target.data(), 0, bytes);
        std::vector<std::byte> source(bytes, std::byte{7});
        std::promise<int> frozen;
        std::thread holder([&] {
          // The third page of four: Linux may copy a part before it stops.
          const std::uintptr_t page = target.address() + 2 * page_size;
          std::optional<Userfaultfd> trap;
          if (access) trap.emplace(Userfaultfd::create(*access));
          const WriteFreeze freeze({page, page + page_size}, trap ? &*trap : nullptr);
          frozen.set_value(freeze.error());
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        });
        REQUIRE(frozen.get_future().get() == 0);
        const ByteTransfer::Place from =
            from_pool ? ByteTransfer::Place(ByteTransfer::InPool{Processor{0}, 600 * page_size})
                      : ByteTransfer::Place(source.data());
        CHECK(depot.transfer({target.data(), from, bytes}) == OpStatus::ok);
        holder.join();
        for (std::size_t i = 0; i < bytes; i += page_size)
          CHECK(target.data()[i] ==
                (from_pool ? static_cast<std::byte>(Depot::value({600 + i / page_size}))
                           : std::byte{7}));
      }
}

TEST_CASE("transfers that a ring does not accept are copied in another way, and the log says so") {
  if (!permissions()[Request::io_uring]) {
    WARN("not tried: io_uring is not permitted");
    return;
  }
  for (const Way& way : ways) {
    if (way.make != make_copy_backend) continue;
    const Outcome outcome = in_fresh_process([&way] {
      Depot depot(way.make, way.method, way.huge);
      depot.stock({{512}, 512});
      forbid_system_call(SYS_io_uring_enter, FilterAction::refuse_eagain);
      for (const PageTransfer::Kind kind :
           {PageTransfer::Kind::move, PageTransfer::Kind::copy, PageTransfer::Kind::create}) {
        const PageSpan span{{512 + 64 * static_cast<std::uint64_t>(kind)}, 64};
        const PageSpan there =
            kind == PageTransfer::Kind::create ? PageSpan{span.first + 4096, 64} : span;
        expect(depot.transfer(kind, there).status == OpStatus::ok, "a page transfer failed");
        for (PageIndex page = there.first; page < there.end(); ++page) {
          expect(depot.holds(1, page), "a page has not arrived");
          const bool stays =
              kind == PageTransfer::Kind::copy ||
              (kind == PageTransfer::Kind::move && depot.pool(0).file().has_huge_pages());
          expect(depot.holds(0, page) == stays, "a page is not where it was");
          const int value = kind == PageTransfer::Kind::create ? 0 : Depot::value(page);
          expect(depot.has_value(1, page, value), "a page has changed");
        }
      }
      std::vector<std::byte> bytes(100'000);
      depot.backend().begin(
          1, ByteTransfer{bytes.data(), ByteTransfer::InPool{Processor{0}, 700 * page_size},
                          bytes.size()});
      const TransferResult outcome = depot.backend().next();
      expect(outcome.slot == 1 && outcome.status == OpStatus::ok, "a byte transfer failed");
      expect(bytes[0] == static_cast<std::byte>(Depot::value({700})), "the copied bytes are wrong");
    });
    INFO(way.name << ": " << outcome.describe());
    CHECK(outcome.passed());
    CHECK(outcome.err.find("io_uring accepts no work") != std::string::npos);
  }
}

TEST_CASE("a limit on file sizes that is set later delays one transfer, and loses none") {
  for (const Way& way : ways) {
    const Outcome outcome = in_fresh_process(
        [&way] {
          Depot depot(way.make, way.method, way.huge);
          depot.stock({{512}, 512});
          const rlimit limit{page_size, page_size};
          if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) throw std::runtime_error("setrlimit");
          ::signal(SIGXFSZ, SIG_IGN);
          TransferResult outcome = depot.transfer(PageTransfer::Kind::move, {{512}, 512});
          if (outcome.status != OpStatus::ok) {
            if (outcome.released)
              throw std::runtime_error("pages were released that did not arrive");
            if (depot.pages(0) != 512) throw std::runtime_error("the source lost pages");
            (void)depot.pool(1).punch({{512}, 512});
            outcome = depot.transfer(PageTransfer::Kind::move, {{512}, 512});
          }
          if (outcome.status != OpStatus::ok || !outcome.released)
            throw std::runtime_error("the second attempt failed, too");
          for (PageIndex page{512}; page < PageIndex{1024}; ++page)
            if (!depot.has_value(1, page, Depot::value(page)))
              throw std::runtime_error("wrong data");
        },
        60'000);
    INFO(way.name << ": " << outcome.describe());
    CHECK(outcome.passed());
  }
}

}  // namespace wherry::test::copy_backend_test
