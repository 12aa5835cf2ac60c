// One processor's pool: the file that holds the pages resident there, and its capacity.
//
// Conservation: pages in the file <= reserved <= capacity, at every instant. A page is reserved
// before it is populated, and given back after it was punched.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/page.h"
#include "os/futex.h"
#include "os/mapping.h"
#include "os/memory_file.h"
#include "os/userfaultfd.h"
#include "trap/protection_mapper.h"

namespace wherry::impl {

// The pages of a pool file, as migration uses them: a seam for tests that delay or fail its steps.
class PoolFile : public HoleFiller {
 public:
  // Frees the pages and unmaps them everywhere. 0 or an errno; afterwards nothing of `span` is in the file, unless somebody
  // holds on to the huge page that they are part of for longer than a few milliseconds.
  [[nodiscard]] virtual int punch(PageSpan span) = 0;
  // Moves the pages to a NUMA node, as far as the kernel can. Requires: they are resident.
  virtual void move_to_node(PageSpan span, int node) = 0;
  // Whether blocks that are huge pages may be mapped as such: the file has some, and the kernel leaves its holes alone.
  virtual bool maps_huge_pages() const = 0;
  // Where the library itself reads a page. Requires: the page is resident (a touch would create
  // it).
  virtual const std::byte* alias(std::uint64_t page) const = 0;
};

class MemoryPoolFile final : public PoolFile {
 public:
  MemoryPoolFile(const std::string& name, std::size_t arena_bytes, HugePages wanted,
                 UffdAccess access);

  int punch(PageSpan span) override;
  OpResult fill(PageSpan span, const std::byte* source) override;
  OpResult fill_zero(PageSpan span) override;
  void move_to_node(PageSpan span, int node) override;
  bool maps_huge_pages() const override {
    return file_.has_huge_pages() && MemoryFile::kernel_keeps_holes();
  }
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
  // which must never be, ends in SIGBUS instead of a page that nobody accounts for. Nothing: may not be had; then pages are
  // created as a touch through the alias would do it, which makes no huge ones either.
  const std::optional<Userfaultfd> filler_;
};

// Wakes one thread that sleeps until something has happened. Any thread.
class Bell {
 public:
  void ring() {
    rung_.fetch_add(1, std::memory_order_release);  // pairs with rung()
    futex_wake(rung_, 1);
  }
  // Seen before looking whether there is something to do; wait() returns at once if it rang since.
  std::uint32_t rung() const { return rung_.load(std::memory_order_acquire); }
  void wait(std::uint32_t seen, int limit_ms) const { futex_wait(rung_, seen, limit_ms); }

 private:
  std::atomic<std::uint32_t> rung_{0};
};

// How many pages a pool may hold, and how many are spoken for. Any thread.
class Capacity {
 public:
  explicit Capacity(std::uint64_t pages) : pages_(pages) {}

  // From now on `bell` rings whenever more than `pages` come to be reserved; it outlives this. Before any
  // other thread knows of this.
  void ring_above(std::uint64_t pages, Bell& bell) {
    ring_above_ = pages;
    bell_ = &bell;
  }

  std::uint64_t pages() const { return pages_; }
  std::uint64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool try_reserve(std::uint64_t pages) {
    // Relaxed is enough: the count carries no data, and who gave pages back had punched them
    // before.
    std::uint64_t now = reserved_.load(std::memory_order_relaxed);
    do {
      if (now + pages > pages_) return false;
    } while (!reserved_.compare_exchange_weak(now, now + pages, std::memory_order_relaxed));
    if (bell_ != nullptr && now <= ring_above_ && now + pages > ring_above_) bell_->ring();
    return true;
  }
  void give_back(std::uint64_t pages) { reserved_.fetch_sub(pages, std::memory_order_relaxed); }

 private:
  const std::uint64_t pages_;
  std::uint64_t ring_above_ = 0;
  Bell* bell_ = nullptr;
  std::atomic<std::uint64_t> reserved_{0};
};

}  // namespace wherry::impl
