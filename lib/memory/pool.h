// One processor's pool: the file that holds the pages resident there. Its capacity:
// memory/capacity.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/page.h"
#include "os/files/memory_file.h"
#include "os/memory/mapping.h"
#include "os/memory/userfaultfd.h"
#include "trap/protection_mapper.h"

namespace wherry::impl {

// The pages of a pool file, as migration uses them: a seam for tests that delay or fail its steps.
class PoolFile : public HoleFiller {
 public:
  // Frees the pages and unmaps them everywhere. 0 or an errno; afterwards nothing of `span` is in
  // the file, unless somebody holds on to the huge page that they are part of for longer than a few
  // milliseconds.
  [[nodiscard]] virtual int punch(PageSpan span) = 0;
  // Moves the pages to a NUMA node, as far as the kernel can. Requires: they are resident.
  virtual void move_to_node(PageSpan span, int node) = 0;
  // Whether blocks that are huge pages may be mapped as such: the file has some, and the kernel
  // leaves its holes alone.
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
  // Fills holes of the file through the alias: page by page and only holes, where write(2) could
  // make huge pages, overwrite, and meet a limit on the size of files. And a touch of a hole of the
  // alias, which must never be, ends in SIGBUS instead of a page that nobody accounts for. Nothing:
  // may not be had; then pages are created as a touch through the alias would do it, which makes no
  // huge ones either.
  const std::optional<Userfaultfd> filler_;
};

}  // namespace wherry::impl
