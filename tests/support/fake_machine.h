// A machine of a few processors in memory: pools and page tables that behave as the kernel's do,
// checked after every call, and that fail on demand. For tests of the layers that drive mappers and
// pools.
//
// After each call the machine asserts the rule that all coherence rests on: never two mappings of a
// page of which one is writable.
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "memory/processor_memory.h"
#include "trap/mapper.h"
#include "trap/view_changer.h"

namespace wherry::test {

using namespace wherry::impl;

class FakeMachine;

// What the next call of an operation answers instead of doing its work; the first `pages` are done
// all the same.
struct Failure {
  std::string operation;
  OpStatus status;
  std::uint64_t pages = 0;
};

class FakeProcessor final : public Mapper, public PoolFile, public ViewChanger {
 public:
  FakeProcessor(FakeMachine& machine, Processor id, std::size_t pages)
      : machine_(machine), id_(id), file_(pages * page_size) {}

  bool punch_unmaps() const override;
  unsigned grain() const override { return grain_; }
  OpResult unmap(PageSpan span) override;
  OpResult copy_protected(PageSpan span, const std::byte* source) override;
  OpResult zero(PageSpan span) override;
  OpResult map_resident(PageSpan span, bool write_protected) override;
  OpResult map_whole(PageSpan block) override;
  OpResult write_protect(PageSpan span) override;
  OpResult write_unprotect(PageSpan span) override;
  OpResult forbid(PageSpan span) override;
  OpResult wake(PageSpan span) override;
  int punch(PageSpan span) override;
  OpResult fill(PageSpan span, const std::byte* source) override;
  OpResult fill_zero(PageSpan span) override;
  void move_to_node(PageSpan span, int node) override;
  bool maps_huge_pages() const override { return true; }
  int change_view(PageSpan span, Processor owner) override;
  int forget_entries(std::span<const std::uint64_t> pages) override;
  std::uint64_t count_mappings() override;
  const std::byte* alias(std::uint64_t page) const override {
    return file_.data() + page * page_size;
  }

  // The process has ended: every call says so from now on, and nothing is mapped there.
  void die() {
    dead_ = true;
    table_.clear();
    views_.clear();
  }

  // A new process has taken its place.
  void revive() { dead_ = false; }

  bool holds(std::uint64_t page) const { return held_.contains(page); }
  bool maps(std::uint64_t page) const { return table_.contains(page); }
  bool maps_writable(std::uint64_t page) const {
    const auto entry = table_.find(page);
    return entry != table_.end() && entry->second;
  }
  // Whose pool a mapping of the page shows.
  int view(std::uint64_t page) const {
    const auto foreign = views_.find(page);
    return foreign == views_.end() ? id_.index : foreign->second;
  }
  bool forbids(std::uint64_t page) const { return forbidden_.contains(page); }
  std::size_t held() const { return held_.size(); }
  // Puts a page into the file that nobody accounted for.
  void plant(std::uint64_t page) { held_.insert(page); }
  // The first eight bytes of a page, as a value.
  std::uint64_t value(std::uint64_t page) const {
    std::uint64_t value = 0;
    std::memcpy(&value, alias(page), sizeof value);
    return value;
  }
  void set_value(std::uint64_t page, std::uint64_t value) {
    std::memcpy(file_.data() + page * page_size, &value, sizeof value);
  }

  void unmap(std::uint64_t page) { table_.erase(page); }
  void set_grain(unsigned grain) { grain_ = grain; }

 private:
  // data: nothing for zeros.
  void put(std::uint64_t page, const std::byte* data);
  // Does `step` for each page, until it says something else than ok or a planned failure says stop.
  OpResult each(const char* operation, PageSpan span,
                const std::function<OpStatus(std::uint64_t page)>& step, bool by_process = true);

  FakeMachine& machine_;
  const Processor id_;
  std::vector<std::byte> file_;
  std::set<std::uint64_t> held_;
  std::map<std::uint64_t, bool> table_;  // page -> writable
  std::map<std::uint64_t, int> views_;   // page -> whose pool, where that is not its own
  std::set<std::uint64_t> forbidden_;
  bool dead_ = false;
  unsigned grain_ = 1;
};

class FakeMachine {
 public:
  FakeMachine(int processors, std::uint64_t blocks, std::uint64_t device_capacity_pages);

  FakeProcessor& at(int p) { return *processors_[static_cast<std::size_t>(p)]; }
  ProcessorMemory& memory(int p) { return *memories_[static_cast<std::size_t>(p)]; }
  const std::vector<ProcessorMemory*>& memories() const { return pointers_; }
  std::vector<ViewChanger*> changers();
  BlockDirectory& blocks() { return blocks_; }

  // Called before every operation; may sleep, count, or change the world.
  std::function<void(const std::string& operation, Processor p, PageSpan span)> before;
  std::deque<Failure> failures;  // each applies to the next call of its operation, in order
  std::vector<std::string> log;  // "copy 1: 0+16" for each call, oldest first
  std::uint64_t mappings = 100;  // of every process
  int view_error = 0;            // what changes of views answer
  bool punch_unmaps = true;  // false: who can touch a page that is punched makes a new one, as with
                             // the mprotect trap

  // Every operation begins with this: the log, then `before`, which may call operations itself.
  void begin(const std::string& operation, Processor p, PageSpan span);
  // Held by each operation after that: several threads may call them.
  std::mutex lock;

  // Removes the page from every table that shows this pool. Aborts the test if it is in one and may
  // not be.
  void unmap_from(int owner, std::uint64_t page, bool may_be_mapped);
  // Aborts the test when a page has two mappings of different copies of which one is writable.
  void check_coherent(PageSpan span) const;

 private:
  BlockDirectory blocks_;
  std::vector<std::unique_ptr<FakeProcessor>> processors_;
  std::vector<std::unique_ptr<ProcessorMemory>> memories_;
  std::vector<ProcessorMemory*> pointers_;
};

}  // namespace wherry::test
