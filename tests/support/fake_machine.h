// A simulated machine of a few processors: pools and page tables that behave like Linux's, are
// checked after every call, and fail on demand. For tests of the layers that use mappers and pools.
//
// After each call the machine asserts the coherence rule: a page never has two mappings of
// different copies of which one is writable.
#pragma once

#include <atomic>
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

// The next call of the operation returns `status`, after it has done the work for the first
// `pages`.
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
  OpResult unmap(PageSpan span, FaultSlot* waiter) override;
  OpResult copy_protected(PageSpan span, const std::byte* source, FaultSlot* waiter) override;
  OpResult zero(PageSpan span, FaultSlot* waiter) override;
  OpResult map_resident(PageSpan span, bool write_protected, FaultSlot* waiter) override;
  OpResult map_whole(PageSpan block, FaultSlot* waiter = nullptr) override;
  OpResult write_protect(PageSpan span, FaultSlot* waiter) override;
  OpResult write_unprotect(PageSpan span, FaultSlot* waiter) override;
  OpResult remove_entries(PageSpan block) override;
  OpResult split_folios(PageSpan span) override;
  OpResult forbid(PageSpan span, PageIndex page) override;
  OpResult hide(PageSpan span) override;
  OpResult wake(PageSpan span) override;
  int punch(PageSpan span) override;
  void left(PageSpan) override {}
  Folios folios(PageSpan span, const PageMask& resident) override;
  PageSpan folios_around(PageSpan span) const override { return block_span(block_of(span.first)); }
  void remove_own_entries(PageSpan) override {}
  OpStatus split(PageSpan span) override;
  void was_split(PageSpan block) override { huge_pages_.erase(block_of(block.first).value); }
  OpStatus rebuild(PageSpan span, const PageMask& resident) override;
  OpResult fill(PageSpan span, const std::byte* source) override;
  OpResult fill_zero(PageSpan span) override;
  void move_to_node(PageSpan span, int node) override;
  int merge(PageSpan block) override;
  bool maps_huge_pages() const override { return true; }
  int change_view(PageSpan span, Processor owner) override;
  int forget_entries(std::span<const PageSpan> runs) override;
  bool is_overdue() override { return overdue_; }
  std::uint64_t count_mappings() override;
  const std::byte* alias(PageIndex page) const override { return file_.data() + offset_of(page); }

  // Ends the process: it maps nothing, and its operations fail with process_gone or ESRCH.
  void die() {
    dead_ = true;
    table_.clear();
    views_.clear();
  }

  // The process leaves a command without an answer.
  void set_overdue(bool overdue) { overdue_ = overdue; }
  // A new process replaces the one that has ended.
  void revive() { dead_ = false; }

  bool holds(PageIndex page) const { return held_.contains(page); }
  bool maps(PageIndex page) const { return table_.contains(page); }
  bool maps_writable(PageIndex page) const {
    const auto entry = table_.find(page);
    return entry != table_.end() && entry->second;
  }
  // The processor whose pool a mapping of the page shows.
  int view(PageIndex page) const {
    const auto foreign = views_.find(page);
    return foreign == views_.end() ? id_.index : foreign->second;
  }
  bool forbids(PageIndex page) const { return forbidden_.contains(page); }
  std::size_t held() const { return held_.size(); }
  // The block is a huge page of the file; `held`: somebody outside holds a page of it.
  void make_huge(BlockIndex block, bool held) {
    huge_pages_.insert(block.value);
    if (held) held_outside_.insert(block.value);
  }
  void let_go(BlockIndex block) { held_outside_.erase(block.value); }
  bool is_huge(BlockIndex block) const { return huge_pages_.contains(block.value); }
  bool maps_any(BlockIndex block) const {
    const auto first = table_.lower_bound(block_span(block).first);
    return first != table_.end() && first->first < block_span(block).end();
  }
  // Adds a page to the file without accounting for it.
  void plant(PageIndex page) { held_.insert(page); }
  // The first eight bytes of a page, as a value.
  std::uint64_t value(PageIndex page) const {
    std::uint64_t value = 0;
    std::memcpy(&value, alias(page), sizeof value);
    return value;
  }
  void set_value(PageIndex page, std::uint64_t value) {
    std::memcpy(file_.data() + offset_of(page), &value, sizeof value);
  }

  void unmap(PageIndex page) { table_.erase(page); }
  void set_grain(unsigned grain) { grain_ = grain; }

 private:
  // data: null for zeros.
  void put(PageIndex page, const std::byte* data);
  // Does `step` for each page, until a step does not return ok, or a planned failure stops it.
  OpResult each(const char* operation, PageSpan span,
                const std::function<OpStatus(PageIndex page)>& step, bool by_process = true);

  FakeMachine& machine_;
  const Processor id_;
  std::vector<std::byte> file_;
  std::set<PageIndex> held_;
  std::set<std::uint64_t> huge_pages_;    // blocks that are one huge page
  std::set<std::uint64_t> held_outside_;  // of these, those of which somebody holds a page
  std::map<PageIndex, bool> table_;       // page -> writable
  // For each page whose view shows another processor's pool: that processor.
  std::map<PageIndex, int> views_;
  std::set<PageIndex> forbidden_;
  bool dead_ = false;
  std::atomic<bool> overdue_ = false;
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

  // Called before every operation. May sleep, count, or change state.
  std::function<void(const std::string& operation, Processor p, PageSpan span)> before;
  std::deque<Failure> failures;     // each applies to the next call of its operation, in order
  std::vector<std::string> log;     // "copy 1: 0+16" for each call, oldest first
  std::set<FaultSlot*> waiters;     // that calls of mappers were given
  std::uint64_t mappings = 100;     // reported for every process
  std::atomic<int> view_error = 0;  // the result of changes of views
  // False: an access to a punched page that is still mapped makes a new page, as with the mprotect
  // trap.
  bool punch_unmaps = true;
  // Whether the host may have Linux split huge pages through other processes' page tables.
  bool may_split_of_others = true;
  // Whether Linux can enter a page write-protected: since 6.4.
  bool may_enter_protected = true;

  // Every operation calls this first. It logs, then calls `before`, which may call operations
  // itself.
  void begin(const std::string& operation, Processor p, PageSpan span);
  void note_waiter(FaultSlot* waiter);
  // Each operation holds it afterwards: several threads may call them.
  std::mutex lock;

  // Removes the page from every table that shows this pool. Aborts the test if the page is in one
  // and `may_be_mapped` is false.
  void unmap_from(int owner, PageIndex page, bool may_be_mapped);
  // Aborts the test if a page has mappings of different copies of which one is writable.
  void check_coherent(PageSpan span) const;

 private:
  BlockDirectory blocks_;
  std::vector<std::unique_ptr<FakeProcessor>> processors_;
  std::vector<std::unique_ptr<ProcessorMemory>> memories_;
  std::vector<ProcessorMemory*> pointers_;
};

}  // namespace wherry::test
