// One processor's pool: the file that holds the pages resident there, its capacity, and how it
// empties.
//
// Conservation: pages in the file <= reserved <= capacity, at every instant. A page is reserved
// before it is populated, and given back after it was punched.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/lock.h"
#include "base/page.h"
#include "base/processor.h"
#include "os/mapping.h"
#include "os/memory_file.h"
#include "os/userfaultfd.h"
#include "pages/block_directory.h"

namespace wherry::impl {

// The pages of a pool file, as migration uses them: a seam for tests that delay or fail its steps.
class PoolFile {
 public:
  virtual ~PoolFile() = default;
  // Frees the pages and unmaps them everywhere. 0 or an errno; afterwards nothing of `span` is in
  // the file.
  [[nodiscard]] virtual int punch(PageSpan span) = 0;
  // Puts copies of the pages at `source` into the file, mapped at no processor. Requires: they are not
  // there.
  [[nodiscard]] virtual OpResult fill(PageSpan span, const std::byte* source) = 0;
  // The same with zero pages.
  [[nodiscard]] virtual OpResult fill_zero(PageSpan span) = 0;
  // Moves the pages to a NUMA node, as far as the kernel can. Requires: they are resident.
  virtual void move_to_node(PageSpan span, int node) = 0;
  // Where the library itself reads a page. Requires: the page is resident (a touch would create
  // it).
  virtual const std::byte* alias(std::uint64_t page) const = 0;
};

class MemoryPoolFile final : public PoolFile {
 public:
  MemoryPoolFile(const std::string& name, std::size_t arena_bytes, HugePages wanted);

  int punch(PageSpan span) override { return file_.punch(span.offset(), span.bytes()); }
  OpResult fill(PageSpan span, const std::byte* source) override;
  OpResult fill_zero(PageSpan span) override;
  void move_to_node(PageSpan span, int node) override;
  const std::byte* alias(std::uint64_t page) const override {
    return alias_.data() + page * page_size;
  }
  MemoryFile& file() { return file_; }
  const MemoryFile& file() const { return file_; }
  const Mapping& alias_mapping() const { return alias_; }

 private:
  std::uintptr_t address(PageSpan span) const { return alias_.address() + span.offset(); }

  MemoryFile file_;
  Mapping alias_;
  // Fills holes of the file through the alias: page by page and only holes, where write(2) could make
  // huge pages, overwrite, and meet a limit on the size of files. And a touch of a hole of the alias,
  // which must never be, ends in SIGBUS instead of a page that nobody accounts for.
  const Userfaultfd filler_;
};

// How many pages a pool may hold, and how many are spoken for. Any thread.
class Capacity {
 public:
  explicit Capacity(std::uint64_t pages) : pages_(pages) {}

  std::uint64_t pages() const { return pages_; }
  std::uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool try_reserve(std::uint64_t pages) {
    // Relaxed is enough: the count carries no data, and who gave pages back had punched them
    // before.
    std::uint64_t now = reserved_.load(std::memory_order_relaxed);
    do {
      if (now + pages > pages_) return false;
    } while (!reserved_.compare_exchange_weak(now, now + pages, std::memory_order_relaxed));
    return true;
  }
  void give_back(std::uint64_t pages) { reserved_.fetch_sub(pages, std::memory_order_relaxed); }

 private:
  const std::uint64_t pages_;
  std::atomic<std::uint64_t> reserved_{0};
};

// Blocks that hold pages of one pool, in the order in which they came: the first is evicted first.
// Links live in the blocks, so that queueing needs no memory. Any thread.
class EvictionQueue {
 public:
  EvictionQueue(BlockDirectory& blocks, Processor processor)
      : blocks_(blocks), processor_(processor) {}

  // Requires: the block is not queued.
  void push(std::uint64_t block) EXCLUDES(lock_);
  // Requires: the block is queued.
  void remove(std::uint64_t block) EXCLUDES(lock_);
  std::optional<std::uint64_t> oldest() const EXCLUDES(lock_);

 private:
  QueueLinks& links(std::uint32_t place) REQUIRES(lock_) {
    return blocks_.find(place - 1)->links(processor_);
  }

  BlockDirectory& blocks_;
  const Processor processor_;
  mutable Mutex lock_;
  std::uint32_t head_ GUARDED_BY(lock_) = 0;  // block number + 1; 0: the queue is empty
  std::uint32_t tail_ GUARDED_BY(lock_) = 0;
};

}  // namespace wherry::impl
