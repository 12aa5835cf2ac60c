// One processor's pool: the files that hold the pages resident there. Its capacity is in
// memory/capacity.h.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "base/page.h"
#include "base/page_mask.h"
#include "memory/folio_map.h"
#include "memory/striped_file.h"
#include "os/files/file_window.h"
#include "os/files/hole_probe.h"
#include "os/memory/mapping.h"
#include "os/memory/page_frames.h"
#include "os/memory/userfaultfd.h"
#include "trap/protection_mapper.h"

namespace wherry::impl {

// How pages lie in the folios (os/memory/page_frames.h) of a pool file.
enum class Folios {
  apart,      // They share no folio with other pages.
  huge_page,  // They are a part of a huge page.
  unknown,    // They may share smaller folios with other pages.
};

// The operations on a pool file that migration uses. Tests replace them to delay or fail single
// steps.
class PoolFile : public HoleFiller {
 public:
  // Frees the pages and removes all mappings of them. Returns 0 or an errno. Whoever holds a page
  // keeps its frame, with its contents. Requires: folios() returns `apart` for them. If only a part
  // of a folio is punched, Linux clears that part in place, and a holder reads zeros.
  [[nodiscard]] virtual int punch(PageSpan span) = 0;
  // Punches a part of a block of which the pool holds all pages, so that Linux may have merged them
  // since folios() looked. Takes 3 us longer than punch().
  [[nodiscard]] virtual int punch_from_full_block(PageSpan span) { return punch(span); }
  // Notes that the pages have left the file by another call than punch().
  virtual void left(PageSpan span) = 0;

  // Returns how these pages lie in folios. `resident`: the pages of their block that the pool
  // holds, including these. Takes a few microseconds at most.
  virtual Folios folios(PageSpan span, const PageMask& resident) = 0;
  // Returns the pages, and those with which they may share folios.
  virtual PageSpan folios_around(PageSpan span) const = 0;
  // Removes the page-table entries for the block in the library's own mappings (the aliases).
  virtual void remove_own_entries(PageSpan block) = 0;
  // Has Linux split the huge page that contains these pages; the contents stay. Requires: only the
  // page table of the library's own mappings has entries for the block. ok: the block has small
  // pages now. held: somebody else holds a page of it. unsupported: Linux cannot split, or does not
  // tell. Takes 50 to 200 us if Linux splits, 10 to 20 us otherwise.
  [[nodiscard]] virtual OpStatus split(PageSpan span) = 0;
  // Notes that the block's huge page was split by another call than split().
  virtual void was_split(PageSpan block) = 0;
  // Puts those of the pages that are in `resident` into new frames, each a folio of its own.
  // Whoever holds an old frame keeps it, with its contents. Requires: no process can write the
  // pages, and no other operation changes them. Removes all page-table entries for them where a
  // punch does that. no_memory: nothing has changed.
  [[nodiscard]] virtual OpStatus rebuild(PageSpan span, const PageMask& resident) = 0;
  // Moves as many of the pages to a NUMA node as Linux can. Requires: they are resident.
  virtual void move_to_node(PageSpan span, int node) = 0;
  // Has Linux make one huge page of the pages of a block, while threads may access them. Requires:
  // maps_huge_pages(). If no userfaultfd tracks the file, pages that are punched meanwhile may come
  // back as zeros; otherwise Linux does not merge a block with a hole. Returns 0, or an errno with
  // nothing changed: EAGAIN or EBUSY if a page is in use elsewhere, ENOMEM. One thread calls it.
  [[nodiscard]] virtual int merge(PageSpan block) = 0;
  // Whether blocks that are huge pages may be mapped with one entry. The file must have huge pages,
  // and Linux must fill no holes of it, at least where mappings of holes forbid huge pages. Then
  // fill() and fill_zero() of a whole block create a huge page.
  virtual bool maps_huge_pages() const = 0;
  // The address at which the library itself reads the page. Requires: the page is resident. An
  // access to an absent page would create it, or raise SIGBUS.
  virtual const std::byte* alias(PageIndex page) const = 0;
};

// Whether fill() may use write(2) for these pages, if the file has huge pages. Since 6.14 Linux
// creates large folios for a write, in half of the time that single pages take. Linux takes the
// largest aligned folio that holds no other page, also if it is larger than the write, and fills
// the rest with zeros. So the run must be exactly that folio: it is aligned, and the other half of
// the next larger folio has a page, or the run is a whole block.
//
// `other_half_is_empty(run)`: returns whether all pages of the run are absent.
template <typename Test>
bool may_be_written(PageRun run, const Test& other_half_is_empty) {
  constexpr unsigned pages_min = 16;
  if (run.count < pages_min || !std::has_single_bit(run.count) || run.first % run.count != 0)
    return false;
  return run.count == pages_per_block ||
         !other_half_is_empty(PageRun{run.first ^ run.count, run.count});
}

// The right to write to one of a pool's files. It is limited to a few threads, because Linux locks
// a file during a write.
class WriteTurn {
 public:
  WriteTurn() = default;  // no file
  explicit WriteTurn(std::atomic<unsigned>& writers) : writers_(&writers) {}
  WriteTurn(WriteTurn&& other) noexcept : writers_(std::exchange(other.writers_, nullptr)) {}
  WriteTurn& operator=(WriteTurn&& other) noexcept {
    std::swap(writers_, other.writers_);
    return *this;
  }
  ~WriteTurn() {
    if (writers_ != nullptr) writers_->fetch_sub(1, std::memory_order_release);
  }

 private:
  std::atomic<unsigned>* writers_ = nullptr;  // how many threads have the right
};

class SparsePoolFile final : public PoolFile {
 public:
  // `access`: how to get the userfaultfd that fills the files; nullopt if none does (see filler_).
  SparsePoolFile(const std::string& name, std::size_t arena_bytes, HugePages wanted,
                 std::optional<UffdAccess> access, const Stripes& stripes = {});

  // Makes the aliases show the files that these pages belong to, before their first use. Requires:
  // the pool holds none of them. Returns 0, or an errno; then the call may be repeated.
  [[nodiscard]] int open(PageSpan pages);

  int punch(PageSpan span) override;
  int punch_from_full_block(PageSpan span) override;
  void left(PageSpan span) override { folio_map_.separated(span); }
  Folios folios(PageSpan span, const PageMask& resident) override;
  PageSpan folios_around(PageSpan span) const override { return folio_map_.around(span); }
  void remove_own_entries(PageSpan block) override;
  OpStatus split(PageSpan span) override;
  void was_split(PageSpan block) override { folio_map_.separated(block); }
  OpStatus rebuild(PageSpan span, const PageMask& resident) override;
  // Notes that a copy is about to create these pages, perhaps as one folio. Requires: whole
  // regions.
  void may_become_folio(PageSpan span) { folio_map_.created(span); }
  OpResult fill(PageSpan span, const std::byte* source) override;
  OpResult fill_zero(PageSpan span) override;
  OpResult fill_zero_small(PageSpan span);
  void move_to_node(PageSpan span, int node) override;
  int merge(PageSpan block) override;
  bool maps_huge_pages() const override {
    return file_.has_huge_pages() &&
           probe_holes(filler_ ? HoleGuard::userfaultfd : HoleGuard::small_mapping).keeps_holes();
  }
  // Whether views of the pool may permit huge pages everywhere. Otherwise they permit them only
  // where the file holds a huge page.
  bool views_permit_huge_pages() const { return maps_huge_pages() && filler_; }
  const std::byte* alias(PageIndex page) const override { return alias_.data() + offset_of(page); }
  const StripedFile& file() const { return file_; }
  const Mapping& alias_mapping() const { return alias_; }
  // Returns the right to write to these pages, which belong to one file, or nullopt if
  // `writers_max` threads have it already.
  std::optional<WriteTurn> begin_write(PageSpan span, unsigned writers_max) const;
  // A block in a second mapping of the pool, where copies read and create huge pages without a
  // change of mappings. An access to an absent page creates it. Requires: has_block_alias().
  bool has_block_alias() const { return block_alias_.size() != 0; }
  std::span<std::byte> block_alias(PageSpan span) const {
    return {block_alias_.data() + span.offset(), span.bytes()};
  }

 private:
  std::uintptr_t address(PageSpan span) const { return alias_.address() + span.offset(); }
  bool is_huge_page(PageSpan span) const;
  bool is_absent_block(PageSpan span) const;
  bool holds_none(PageSpan span) const;
  // These write to the file, or create a huge page. They return nullopt if that is not possible
  // now, but small pages can be created. try_write() writes only if no other thread does, and where
  // Linux creates no further pages. fill_huge_page() fills with zeros if `source` is null.
  std::optional<OpResult> write(PageSpan span, const std::byte* source);
  std::optional<OpResult> try_write(PageSpan span, const std::byte* source);
  std::optional<OpResult> fill_huge_page(PageSpan span, const std::byte* source);
  // Returns the status for the result of a write or of populate(). If it failed, frees the pages.
  OpResult outcome_of(PageSpan span, int result, std::size_t expected);

  Access alias_access() const { return filler_ ? Access::read : Access::write; }
  // Returns the page's place in its folio, or nullopt if Linux does not tell this process.
  // Requires: the page is resident.
  std::optional<PageFrames::Place> place_of(PageIndex page) const;
  // Whether the block is a huge page now. Requires: the pool holds all of it.
  bool is_huge_now(PageSpan block);
  // Fills holes with small pages, and waits for memory. A page that a read has created in a hole
  // meanwhile gets the contents. Requires: the pages are absent.
  void fill_small(PageSpan span, const std::byte* source);

  StripedFile file_;
  Mapping alias_;
  // Fills holes of the file through the alias, page by page, unless a write is faster. An access to
  // a hole of the alias, which would be a bug, raises SIGBUS instead of creating a page that is not
  // accounted for. If userfaultfd is not permitted, it is nullopt, and pages are populated through
  // the alias, which creates no huge pages either.
  const std::optional<Userfaultfd> filler_;
  // See block_alias(). Empty if there are no huge pages, and where no userfaultfd tracks the file:
  // Linux would fill its holes through such a mapping (docs/decisions/traps.md).
  Mapping block_alias_;
  std::optional<FileWindow> merge_window_;  // for merge() if block_alias_ is empty
  FolioMap folio_map_;
  const PageFrames frames_;
  Mutex folios_lock_{LockOrder::folios};
  // The mapping in which is_huge_now() looks at a block; made at its first use.
  std::optional<FileWindow> look_window_ GUARDED_BY(folios_lock_);
  // The contents of the pages that rebuild() moves; made at its first use.
  std::optional<Mapping> contents_ GUARDED_BY(folios_lock_);
  mutable std::vector<std::atomic<unsigned>> writers_;  // by file, see WriteTurn
};

}  // namespace wherry::impl
