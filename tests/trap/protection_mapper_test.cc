// The protection mapper with real mprotect calls, and the fault slots between two threads that act
// as two processes.
#include "trap/protection_mapper.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "memory/arena.h"
#include "os/kernel_abi.h"
#include "os/process/futex.h"
#include "os/process/machine_names.h"
#include "os/process/poll.h"
#include "os/process/process.h"
#include "support/catch.h"
#include "support/descriptors.h"
#include "trap/counted_view_changer.h"
#include "trap/fault_board.h"

namespace wherry::impl::protection_mapper_test {
namespace {

constexpr std::size_t arena_bytes = std::size_t{1} << 30;
constexpr std::uint64_t arena_pages = arena_bytes / page_size;

// This process's rights at the address, from /proc/self/maps: "---", "r--", "rw-".
std::string rights_at(std::uintptr_t address) {
  std::ifstream maps{"/proc/self/maps"};
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words{line};
    std::uintptr_t start = 0, end = 0;
    char dash = 0;
    std::string rights;
    words >> std::hex >> start >> dash >> end >> rights;
    if (start <= address && address < end) return rights.substr(0, 3);
  }
  return "nothing";
}

// A process with so few mappings that only ranges of at least `pages_min` may differ from their
// neighbors.
class CrampedProtector final : public Protector {
 public:
  CrampedProtector(const ArenaLayout& layout, std::uint64_t pages_min)
      : real_(layout), pages_min_(pages_min) {}
  int protect(PageSpan span, Access access, HugeEntries entries, FaultSlot* waiter) override {
    if (span.count < pages_min_ && !made_room_) return ENOMEM;
    made_room_ = access == Access::none;
    return real_.protect(span, access, entries, waiter);
  }
  std::uint64_t count_mappings() override { return real_.count_mappings(); }

 private:
  OwnProtector real_;
  const std::uint64_t pages_min_;
  bool made_room_ = false;
};

// A simulated process with a limit on mappings, counted like Linux does: equal neighbors are one
// mapping. A change that would exceed the limit is refused, and changes nothing.
class LimitedProtector final : public Protector {
 public:
  // `others`: how many mappings are outside the arena.
  LimitedProtector(std::uint64_t pages, std::uint64_t mappings_max, std::uint64_t others)
      : access_(pages, Access::none), mappings_max_(mappings_max), others_(others) {}

  int protect(PageSpan span, Access access, HugeEntries, FaultSlot*) override {
    // A boundary where the access does not change splits no mapping.
    const std::uint64_t splits = (at(span.first) != access && is_inside(span.first) ? 1u : 0u) +
                                 (at(span.end() - 1) != access && is_inside(span.end()) ? 1u : 0u);
    if (splits != 0 && count_mappings() + splits > mappings_max_) return ENOMEM;
    std::fill_n(access_.begin() + static_cast<std::ptrdiff_t>(span.first.value), span.count,
                access);
    if (span.count == access_.size()) ++closings_;
    return 0;
  }
  std::uint64_t count_mappings() override {
    std::uint64_t boundaries = 0;
    for (PageIndex page{1}; page.value < access_.size(); ++page) boundaries += is_boundary(page);
    return others_ + 1 + boundaries;
  }

  Access at(PageIndex page) const { return access_[page.value]; }
  int closings() const { return closings_; }
  void set_others(std::uint64_t others) { others_ = others; }

 private:
  bool is_boundary(PageIndex page) const { return at(page) != at(page - 1); }
  bool is_inside(PageIndex page) const {
    return page.value != 0 && page.value != access_.size() && !is_boundary(page);
  }

  std::vector<Access> access_;
  const std::uint64_t mappings_max_;
  std::uint64_t others_;
  int closings_ = 0;
};

// A filler for tests that need no pool: it fills nothing.
class NoFiller final : public HoleFiller {
 public:
  OpResult fill(PageSpan, const std::byte*) override { return {OpStatus::no_memory, 0}; }
  OpResult fill_zero(PageSpan) override { return {OpStatus::no_memory, 0}; }
};

struct Setup {
  SparsePoolFile pool{"mapper-test", arena_bytes, HugePages::if_possible, std::nullopt};
  Arena arena{arena_bytes, pool};
  ProtectionMapper mapper{pool, arena_pages, 0};

  std::uintptr_t at(PageIndex page) const { return arena.layout().address_of(page); }
  std::string rights(PageIndex page) const { return rights_at(at(page)); }
};

}  // namespace

TEST_CASE("pages are filled, mapped, protected and unmapped, and their neighbours do not change") {
  Setup s;
  s.mapper.attach(std::make_shared<OwnProtector>(s.arena.layout()));
  CHECK_FALSE(s.mapper.punch_unmaps());
  REQUIRE(s.mapper.zero({{16}, 2}));
  CHECK(s.rights({15}) == "---");
  CHECK(s.rights({16}) == "rw-");
  CHECK(s.rights({18}) == "---");
  *reinterpret_cast<int*>(s.at({17})) = 5;
  CHECK(test::allocated_bytes(s.pool.file().fd_at(0)) == 2 * page_size);

  REQUIRE(s.mapper.write_protect({{17}, 1}));
  CHECK(s.rights({17}) == "r--");
  CHECK(*reinterpret_cast<int*>(s.at({17})) == 5);
  REQUIRE(s.mapper.unmap({{16}, 2}));
  CHECK(s.rights({16}) == "---");
  REQUIRE(s.mapper.map_resident({{17}, 1}, /*write_protected=*/true));
  CHECK(s.rights({17}) == "r--");
  REQUIRE(s.mapper.write_unprotect({{17}, 1}));
  CHECK(s.rights({17}) == "rw-");

  REQUIRE(s.mapper.copy_protected({{32}, 1}, s.pool.alias({17})));
  CHECK(s.rights({32}) == "r--");
  CHECK(*reinterpret_cast<int*>(s.at({32})) == 5);
  REQUIRE(s.mapper.unmap({{32}, 1}));
  REQUIRE(s.mapper.forbid({{32}, 1}, {32}));
  CHECK(s.rights({32}) == "---");
}

TEST_CASE(
    "with too few mappings access to neighbours is removed, and requested access is never lost") {
  Setup s;
  s.mapper.attach(std::make_shared<OwnProtector>(s.arena.layout()));
  REQUIRE(s.mapper.zero({{0}, 600}));
  for (const std::uint64_t pages_min : {16ul, 512ul, static_cast<unsigned long>(arena_pages)}) {
    REQUIRE(s.mapper.map_resident({{0}, 600}, false));
    s.mapper.attach(std::make_shared<CrampedProtector>(s.arena.layout(), pages_min));
    REQUIRE(s.mapper.write_protect({{100}, 2}));
    CHECK(s.rights({100}) == "r--");
    CHECK(s.rights({101}) == "r--");
    CHECK(s.rights({102}) == "---");
    CHECK(s.rights({120}) == (pages_min == 16 ? "rw-" : "---"));
    CHECK(s.rights({590}) == (pages_min < arena_pages ? "rw-" : "---"));
    REQUIRE(s.mapper.unmap({{100}, 1}));
    CHECK(s.rights({100}) == "---");
    s.mapper.attach(std::make_shared<OwnProtector>(s.arena.layout()));
  }
}

TEST_CASE("a process stays within its budget of mappings, and every page can be accessed") {
  Setup s;
  constexpr std::uint64_t slack = 20;  // for other mappings of the process
  const std::uint64_t before = count_mappings(::getpid());
  ProtectionMapper mapper{s.pool, arena_pages, before + 200};
  mapper.attach(std::make_shared<OwnProtector>(s.arena.layout()));
  for (std::uint64_t page = 0; page < 2000; page += 2) {
    REQUIRE(mapper.zero({{page}, 1}));
    *reinterpret_cast<std::uint64_t*>(s.at({page})) = page;
    if (page % 100 == 0) REQUIRE(count_mappings(::getpid()) <= before + slack + 200);
  }
  for (std::uint64_t page = 0; page < 2000; page += 2) {
    REQUIRE(mapper.map_resident({{page}, 1}, /*write_protected=*/true));
    REQUIRE(*reinterpret_cast<std::uint64_t*>(s.at({page})) == page);
  }
  CHECK(count_mappings(::getpid()) <= before + slack + 200);
  CHECK(test::allocated_bytes(s.pool.file().fd_at(0)) == 1000 * page_size);
}

TEST_CASE(
    "the grain rises each time that the budget is exceeded, and falls when little is mapped") {
  NoFiller filler;
  constexpr std::uint64_t pages = 16 * pages_per_block;
  auto process = std::make_shared<LimitedProtector>(pages, 10'000, 100);
  ProtectionMapper mapper{filler, pages, 500};
  mapper.attach(process);
  CHECK(mapper.grain() == 1);
  // Maps every second page until access to all pages is removed.
  const auto scatter = [&] {
    const int before = process->closings();
    for (std::uint64_t page = 0; process->closings() == before; page = (page + 2) % pages) {
      REQUIRE(mapper.map_resident({{page}, 1}, false));
      REQUIRE(process->count_mappings() <= 500);
    }
  };
  scatter();
  CHECK(mapper.grain() == pages_per_region);
  scatter();
  CHECK(mapper.grain() == pages_per_block);
  scatter();
  CHECK(mapper.grain() == pages_per_block);
  // Changes the same page repeatedly: mappings are counted from time to time.
  const auto change_often = [&] {
    for (int i = 0; i < 250; ++i) REQUIRE(mapper.map_resident({{0}, 1}, i % 2 == 0));
  };
  REQUIRE(mapper.unmap({{0}, pages}));
  change_often();
  CHECK(mapper.grain() == pages_per_region);
  change_often();
  CHECK(mapper.grain() == 1);
}

TEST_CASE("mappings made outside the mapper count, too") {
  NoFiller filler;
  constexpr std::uint64_t pages = 4 * pages_per_block;
  auto process = std::make_shared<LimitedProtector>(pages, 10'000, 100);
  ProtectionMapper mapper{filler, pages, 500};
  mapper.attach(process);
  REQUIRE(mapper.map_resident({{0}, 1}, false));

  class Views final : public ViewChanger {
   public:
    int change_view(PageSpan, Processor) override { return error; }
    int forget_entries(std::span<const PageSpan>) override { return error; }
    std::uint64_t count_mappings() override { return 7; }
    int error = 0;
  } views;
  CountedViewChanger counted{views, mapper};
  SECTION("changes of views") {
    for (int i = 0; i < 300; ++i) REQUIRE(counted.change_view({{0}, 1}, Processor::host()) == 0);
  }
  SECTION("entries that are removed to detect accesses") {
    const std::vector<PageSpan> entries(ViewChanger::runs_max);
    for (int i = 0; i < 300; i += static_cast<int>(entries.size()))
      REQUIRE(counted.forget_entries(entries) == 0);
  }
  process->set_others(450);
  CHECK(process->at({0}) == Access::write);
  REQUIRE(mapper.map_resident({{7}, 1}, false));
  CHECK(process->at({0}) == Access::none);
  CHECK(process->at({7}) == Access::write);
  CHECK(mapper.grain() == pages_per_region);
  CHECK(counted.count_mappings() == 7);
  views.error = ENOMEM;
  CHECK(counted.change_view({{0}, 1}, Processor::host()) == ENOMEM);
  CHECK(counted.forget_entries({}) == ENOMEM);
}

TEST_CASE(
    "all pages of an instruction are accessible together, however many mappings the program has") {
  // Pages of one region, of one block, and of several blocks. Also pages with different access,
  // which cannot share a mapping, whatever the grain is.
  const std::vector<std::vector<std::uint64_t>> instructions = {
      {17, 18}, {16, 31}, {100, 500}, {100, 700}, {3, 40, 515, 1030}};
  constexpr std::uint64_t pages = 4 * pages_per_block;
  NoFiller filler;
  for (const auto& needed : instructions) {
    for (const bool alike : {true, false}) {
      constexpr std::uint64_t most = 1000;
      // The arena is one mapping; each page adds two.
      auto process = std::make_shared<LimitedProtector>(pages, most, most - 1 - 2 * needed.size());
      ProtectionMapper mapper{filler, pages, most - most / 8};
      mapper.attach(process);
      // Pages all over the arena are mapped already.
      for (std::uint64_t page = 20; page < pages; page += 200)
        REQUIRE(mapper.map_resident({{page}, 1}, false));
      const auto wanted = [&](std::size_t i) {
        return alike || i % 2 == 0 ? Access::write : Access::read;
      };
      // Simulates the instruction: it faults on the first page that it may not access.
      int faults = 0;
      for (std::size_t i = 0; i < needed.size();) {
        if (process->at({needed[i]}) == wanted(i)) {
          ++i;
          continue;
        }
        INFO("pages " << Catch::StringMaker<std::vector<std::uint64_t>>::convert(needed));
        REQUIRE(++faults < 50);
        REQUIRE(mapper.map_resident({{needed[i]}, 1}, wanted(i) == Access::read));
        i = 0;
      }
    }
  }
}

TEST_CASE("without a process nothing is filled, and every call reports that") {
  Setup s;
  CHECK(s.mapper.zero({{0}, 1}).status == OpStatus::process_gone);
  CHECK(s.mapper.unmap({{0}, 1}).status == OpStatus::process_gone);
  CHECK(test::allocated_bytes(s.pool.file().fd_at(0)) == 0);
}

TEST_CASE("a whole block is mapped by one entry until a part of it is unmapped") {
  Setup s;
  s.mapper.attach(std::make_shared<OwnProtector>(s.arena.layout()));
  if (!s.pool.maps_huge_pages()) {
    WARN("skipped: pools have no huge pages here");
    return;
  }
  const PageTable page_table(0);
  const PageSpan block = block_span({1});
  const auto entries = [&] { return page_table.entries_of(s.at(block.first)); };
  // Small pages first: all are mapped, and none by a huge entry.
  for (std::uint64_t half : {0u, 256u}) REQUIRE(s.pool.fill_zero({block.first + half, 256}));
  CHECK(s.mapper.map_whole(block).status == OpStatus::occupied);
  CHECK(s.rights(block.first) == "rw-");
  if (const int refused = s.pool.merge(block)) {
    INFO("errno " << refused);
    CHECK(linux_is_older_than(6, 4));
    return;
  }
  *reinterpret_cast<int*>(s.at(block.first)) = 5;  // through a small entry
  if (linux_is_older_than(6, 14)) {
    // Linux cannot free the page table with the small entries.
    CHECK(s.mapper.map_whole(block).status == OpStatus::occupied);
    CHECK(*reinterpret_cast<int*>(s.at(block.first)) == 5);
    return;
  }
  for (int i = 0; i < 3; ++i) {
    REQUIRE(s.mapper.map_whole(block));
    CHECK(entries() == PageTable::Entries::huge);
    CHECK(*reinterpret_cast<int*>(s.at(block.first)) == 5);

    // The block loses its entry and the permission for another one, before a page leaves.
    REQUIRE(s.mapper.unmap({block.first + 7, 1}));
    CHECK(s.rights(block.first + 7) == "---");
    CHECK(s.rights(block.first) == "---");
    REQUIRE(s.mapper.map_resident({block.first, 7}, /*write_protected=*/false));
    *reinterpret_cast<int*>(s.at(block.first)) = 5;
    CHECK(::madvise(reinterpret_cast<void*>(s.at(block.first)), block_size, abi::collapse) != 0);
    CHECK(entries() == PageTable::Entries::incomplete);
  }
  CHECK(test::allocated_bytes(s.pool.file().fd_at(0)) == block_size);
}

TEST_CASE("a posted fault is read once, changes protection in its own process, and is answered") {
  Setup s;
  auto board = std::make_unique<FaultBoard>();
  const Fd notifier = make_semaphore();
  const BoardSource source(nullptr, *board, notifier);
  const PageTable page_table(0);
  BoardProtector protector(
      nullptr, *board, ::getpid(), open_own_pidfd(), [] {}, s.arena.layout());
  REQUIRE(s.pool.fill_zero({{3}, 2}));
  for (const bool refused : {false, true}) {
    bool tries_again = refused;
    std::thread faulting([&] {
      tries_again = post_fault(*board, notifier, s.at({3}), true, FaultLimit::bounded, &page_table);
    });
    std::optional<FaultMessage> message;
    while (!(message = source.read_message())) std::this_thread::yield();
    CHECK_FALSE(source.read_message());
    CHECK(message->address == s.at({3}));
    CHECK(message->write);
    CHECK_FALSE(message->kind_known);
    FaultSlot* const slot = source.attend(*message);
    CHECK(protector.protect({{3}, 1}, Access::write, HugeEntries::unchanged, slot) == 0);
    CHECK(protector.protect({{4}, 1}, Access::read, HugeEntries::unchanged, slot) == 0);
    CHECK(s.rights({3}) == "rw-");
    CHECK(s.rights({4}) == "r--");
    source.answered(*message, refused);
    faulting.join();
    CHECK(tries_again != refused);
  }
}

TEST_CASE("any number of threads may fault, and each gets its own answer") {
  Setup s;
  auto board = std::make_unique<FaultBoard>();
  const Fd notifier = make_semaphore();
  const BoardSource source(nullptr, *board, notifier);
  constexpr int threads = FaultBoard::slots_max + 20;
  std::atomic<int> wrong{0};
  std::vector<std::thread> faulting;
  for (int i = 0; i < threads; ++i)
    faulting.emplace_back([&, i] {
      const bool even = post_fault(*board, notifier, s.at({static_cast<std::uint64_t>(i)}), false,
                                   FaultLimit::endless, nullptr);
      if (even != (i % 2 == 0)) ++wrong;
    });
  for (int answered = 0; answered < threads;) {
    const auto message = source.read_message();
    if (!message) {
      std::this_thread::yield();
      continue;
    }
    source.answered(*message, s.arena.layout().page_of(message->address)->value % 2 != 0);
    ++answered;
  }
  for (std::thread& thread : faulting) thread.join();
  CHECK(wrong == 0);
}

// A process whose thread answers each change of protection with this errno.
class Liar {
 public:
  Liar(FaultBoard& board, int answer)
      : process_(fork()), answerer_([this, &board, answer] {
          while (!stopping_.load()) {
            FaultSlot& slot = board.changes;
            if (slot.state.load() != FaultSlot::asked) {
              futex_wait(slot.state, slot.state.load(), 10);
              continue;
            }
            slot.error = answer;
            slot.state.store(FaultSlot::done);
            futex_wake(slot.state, 1);
          }
        }) {}
  ~Liar() {
    stopping_ = true;
    answerer_.join();
  }
  pid_t pid() const { return process_; }
  Fd pidfd() const { return Fd(static_cast<int>(::syscall(434 /* pidfd_open */, process_, 0))); }
  // The signal that ended the process. Requires: it has ended.
  int signal() const {
    int status = 0;
    REQUIRE(::waitpid(process_, &status, WNOHANG) == process_);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }

 private:
  static pid_t fork() {
    const pid_t child = ::fork();
    if (child == 0)
      for (;;) ::pause();
    return child;
  }

  const pid_t process_;
  std::atomic<bool> stopping_{false};
  std::thread answerer_;
};

TEST_CASE("a process that answers a change of protection with an impossible error is ended") {
  Setup s;
  auto board = std::make_unique<FaultBoard>();
  Liar liar(*board, GENERATE(-1, EINVAL, 0x7fffffff));
  ProtectionMapper mapper{s.pool, arena_pages, 0};
  mapper.attach(std::make_shared<BoardProtector>(
      nullptr, *board, liar.pid(), liar.pidfd(), [&] { (void)kill_process(liar.pidfd()); },
      s.arena.layout()));
  CHECK(mapper.map_resident({{0}, 1}, true).status == OpStatus::process_gone);
  CHECK(liar.signal() == SIGKILL);
}

TEST_CASE("a process that cannot remove access to its pages is ended") {
  Setup s;
  auto board = std::make_unique<FaultBoard>();
  Liar liar(*board, ENOMEM);
  ProtectionMapper mapper{s.pool, arena_pages, 0};
  mapper.attach(std::make_shared<BoardProtector>(
      nullptr, *board, liar.pid(), liar.pidfd(), [&] { (void)kill_process(liar.pidfd()); },
      s.arena.layout()));
  CHECK(mapper.map_resident({{0}, 1}, true).status == OpStatus::no_memory);
  CHECK(mapper.unmap({{0}, 1}).status == OpStatus::process_gone);
  CHECK(liar.signal() == SIGKILL);
}

TEST_CASE("a process that has ended, or never answers, is reported as gone") {
  Setup s;
  auto board = std::make_unique<FaultBoard>();
  const pid_t child = ::fork();
  if (child == 0)
    for (;;) ::pause();
  const Fd pidfd(static_cast<int>(::syscall(434 /* pidfd_open */, child, 0)));
  REQUIRE(pidfd);
  BoardProtector protector(
      nullptr, *board, child, duplicate_fd(pidfd.get()), [&] { kill_process(pidfd); },
      s.arena.layout());
  // The process does not answer, and is ended for that.
  CHECK(protector.protect({{0}, 1}, Access::none, HugeEntries::unchanged, nullptr) == ESRCH);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WTERMSIG(status) == SIGKILL);
  // Its board is not used any more, so nothing is waited for.
  board->changes.state = FaultSlot::taken;
  CHECK(protector.protect({{0}, 1}, Access::none, HugeEntries::unchanged, nullptr) == ESRCH);
  CHECK(board->changes.state == FaultSlot::taken);
}

}  // namespace wherry::impl::protection_mapper_test
